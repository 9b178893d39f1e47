"""What fills the terminal: one screen a module, each in the same frame."""
