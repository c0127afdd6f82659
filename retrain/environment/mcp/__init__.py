"""`type: mcp`: the tools of MCP servers, over stdio, HTTP and in process."""
