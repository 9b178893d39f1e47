"""Rules of schemas: formats, differences, compatibility, validation. No I/O."""
