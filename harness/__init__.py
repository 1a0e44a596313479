"""H2HTalk's harness: generate, judge, score, report. Import its modules directly; this one is empty."""
