"""Messages of `danube.stream` whose codecs are by hand."""
