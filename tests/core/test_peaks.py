"""The most that was seen, for as long as it is remembered."""

from specgate.core.peaks import Peaks


def test_the_most_is_kept_for_its_time_and_no_longer():
    peaks = Peaks(600.0)
    assert peaks.most == 0.0
    peaks.saw(5.0, 0.0)
    peaks.saw(90.0, 30.0)
    peaks.saw(7.0, 59.0)
    assert peaks.most == 90.0
    peaks.saw(10.0, 610.0)
    assert peaks.most == 90.0
    peaks.saw(9.0, 665.0)
    assert peaks.most == 10.0


def test_it_remembers_no_more_than_a_value_a_minute():
    peaks = Peaks(600.0)
    for second in range(100_000):
        peaks.saw(float(second % 17), float(second))
    assert peaks.most == 16.0
    assert len(peaks._slots) <= 12
