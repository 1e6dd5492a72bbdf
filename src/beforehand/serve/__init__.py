"""The surfaces for other programs: MCP servers over stdio and HTTP."""
