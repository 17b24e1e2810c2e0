"""Looking at engines before they are measured or served from: facts in, findings out."""
