{{/* The settings: what the values say of them, checked where the schema cannot, and as variables. */}}

{{- define "specgate.checks" -}}
{{- $settings := .Values.settings }}
{{- $shadow := $settings.shadow | default "off" | toString }}
{{- if not (or $settings.spec_url (eq $shadow "plain")) }}
{{- fail "settings.spec_url is required: the engine that speculates, such as http://engine-spec:30000" }}
{{- end }}
{{- if not (or $settings.plain_url (eq $shadow "spec")) }}
{{- fail "settings.plain_url is required: the engine that does not speculate, such as http://engine-plain:30001" }}
{{- end }}
{{- range $name, $_ := .Values.secretSettings }}
{{- if hasKey $settings $name }}
{{- fail (printf "%s is in settings and in secretSettings: say it once" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.profile.json .Values.profile.existingConfigMap }}
{{- fail "profile.json and profile.existingConfigMap are both set: say which" }}
{{- end }}
{{- if and $settings.profile (include "specgate.profileConfigMap" .) }}
{{- fail "settings.profile is set by the chart where profile.json or profile.existingConfigMap is" }}
{{- end }}
{{- end }}

{{/* A setting as text. To YAML a bare `off` is false, and every switch takes off for false. */}}
{{- define "specgate.setting" -}}
{{- if kindIs "bool" . }}{{ ternary "true" "off" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{- define "specgate.env" -}}
{{- range $name, $value := .Values.settings }}
{{- if not (kindIs "invalid" $value) }}
- name: SPECGATE_{{ upper $name }}
  value: {{ include "specgate.setting" $value | quote }}
{{- end }}
{{- end }}
{{- if include "specgate.profileConfigMap" . }}
- name: SPECGATE_PROFILE
  value: /etc/specgate/profile/{{ .Values.profile.key }}
{{- end }}
{{- range $name, $secret := .Values.secretSettings }}
- name: SPECGATE_{{ upper $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name }}
      key: {{ $secret.key }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where clients and probes speak to it: https where it has a certificate. */}}
{{- define "specgate.scheme" -}}
{{ ternary "HTTPS" "HTTP" (or (hasKey .Values.settings "tls_cert_file") (hasKey .Values.secretSettings "tls_cert_file")) }}
{{- end }}

{{/* The port of its own that metrics have, or nothing. */}}
{{- define "specgate.metricsPort" -}}
{{- $port := .Values.settings.metrics_port | default "off" | toString }}
{{- if ne $port "off" }}{{ int $port }}{{ end }}
{{- end }}

{{/* Above what the gate itself takes to drain, or streams would be killed that it lets end. */}}
{{- define "specgate.gracePeriod" -}}
{{- if .Values.terminationGracePeriodSeconds -}}
{{ int .Values.terminationGracePeriodSeconds }}
{{- else -}}
{{- $settle := dig "drain_settle_s" 5 .Values.settings | float64 }}
{{- $timeout := dig "drain_timeout_s" 120 .Values.settings | float64 }}
{{- addf $settle $timeout 15 | ceil | int }}
{{- end }}
{{- end }}
