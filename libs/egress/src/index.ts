/** What a sandboxed program may reach: an HTTP proxy behind the agent channel, and a package proxy. */
export {}
