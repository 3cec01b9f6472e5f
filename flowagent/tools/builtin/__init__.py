"""Tools that come with flowagent, each safe by default."""
