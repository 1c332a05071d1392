"""Questions in, frames out: never draws, never prints."""
