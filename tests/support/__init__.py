"""The test kit: what tests of several folders share. Imported as ``from support.streams import drain``."""
