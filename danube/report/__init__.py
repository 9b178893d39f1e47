"""Reports of runs: one self-contained file, HTML or Markdown, with verdicts first and plots as inline SVG."""
