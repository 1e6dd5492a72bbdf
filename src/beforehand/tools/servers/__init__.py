"""The MCP servers: one file each."""
