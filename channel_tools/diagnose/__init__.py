"""From symptom to cause: checks of hosts, causes of failures, and what GPUs do."""
