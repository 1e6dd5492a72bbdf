"""How decisions were made: one of them whole, and all of them for Galileo and OTLP."""
