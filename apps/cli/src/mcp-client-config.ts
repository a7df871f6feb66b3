/** Settings for MCP clients, to be pasted into their files. They name the key but never contain it. */

export const MCP_CLIENTS = ['claude-code', 'claude-desktop', 'cursor', 'vscode', 'zed'] as const
export type McpClient = (typeof MCP_CLIENTS)[number]

export interface McpTarget {
  /** The endpoint, with its query. */
  url: string
  /** The command that starts the relay over stdio. */
  command: string
  args: string[]
  /** Where the relay finds the API and a key. */
  env: Record<string, string>
}

/** The file of `client` and its content. */
export function clientConfig(client: McpClient, target: McpTarget): { file: string; content: unknown } {
  const { url, command, args, env } = target
  const stdio = { command, args, env }
  const headers = (key: string) => ({ Authorization: `Bearer ${key}` })
  switch (client) {
    case 'claude-code':
      return {
        file: '.mcp.json',
        content: {
          mcpServers: { cofferdam: { type: 'http', url, headers: headers('${COFFERDAM_API_KEY}') } },
        },
      }
    // Claude Desktop accepts no headers for remote servers, so it starts the relay.
    case 'claude-desktop':
      return { file: 'claude_desktop_config.json', content: { mcpServers: { cofferdam: stdio } } }
    case 'cursor':
      return {
        file: '.cursor/mcp.json',
        content: { mcpServers: { cofferdam: { url, headers: headers('${env:COFFERDAM_API_KEY}') } } },
      }
    case 'vscode':
      return {
        file: '.vscode/mcp.json',
        content: {
          inputs: [
            { type: 'promptString', id: 'cofferdam-key', description: 'Cofferdam API key', password: true },
          ],
          servers: { cofferdam: { type: 'http', url, headers: headers('${input:cofferdam-key}') } },
        },
      }
    case 'zed':
      return { file: 'settings.json of Zed', content: { context_servers: { cofferdam: stdio } } }
  }
}
