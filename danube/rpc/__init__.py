"""Who carries calls. Services and clients never know: they speak to the protocols of `carrier`."""
