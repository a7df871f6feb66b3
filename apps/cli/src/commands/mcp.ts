import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { apiUrlFile, openApi, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, CommandFailure, type Command, type CommandLine, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { startLocalFleet } from '../local-fleet.ts'
import { clientConfig, MCP_CLIENTS, type McpClient, type McpTarget } from '../mcp-client-config.ts'
import { relayMessages } from '../mcp-relay.ts'
import { hasFlag, textFlag } from '../parse-command-line.ts'
import { UsageError } from '../usage-error.ts'

const BIN = fileURLToPath(new URL('../../bin/cofferdam.mjs', import.meta.url))

export const command: Command = {
  usage: '[flags]',
  details:
    'Serves the tools of the API over stdin and stdout, for clients that start MCP servers themselves. ' +
    'The API serves the\nsame tools over HTTP at /mcp. When the client closes stdin, what is not detached ' +
    'is cancelled.',
  flags: {
    tenant: {
      type: 'string',
      value: 'ID',
      description: 'tenant of every call (default: that of the key, else demo)',
    },
    agent: { type: 'string', value: 'ID', description: 'agent of every call (default: mcp)' },
    template: { type: 'string', value: 'ID', description: 'template of every call' },
    local: {
      type: 'boolean',
      description: 'start a fleet in the data directory if none runs, and stop it at the end',
    },
    'print-config': {
      type: 'string',
      value: 'CLIENT',
      description: `print the settings for a client: ${MCP_CLIENTS.join(', ')}`,
    },
    ...API_FLAGS,
  },
  words: { min: 0, max: 0 },
  examples: ['cofferdam mcp', 'cofferdam mcp --local', 'cofferdam mcp --print-config claude-code'],
  async run(context, line) {
    const { terminal } = context
    const asked = textFlag(line, 'print-config')
    if (asked !== undefined) {
      const api = openApi(context, line)
      const { file, content } = clientConfig(clientOf(asked), targetOf(context, line, api))
      terminal.note(`For ${file}:`)
      terminal.program('stdout', `${JSON.stringify(content, null, 2)}\n`)
      terminal.value(content)
      return EXIT.ok
    }
    await using _fleet = hasFlag(line, 'local') ? await localFleet(context, line) : null
    const api = openApi(context, line)
    // If no API answers, fails at once with an error that says what to do.
    await api.call('GET', '/healthz')
    await relayMessages({
      input: context.stdin,
      write: (message) => terminal.program('stdout', `${message}\n`),
      url: endpointOf(context, line, api),
      key: api.key,
      stop: context.stop,
      note: (text) => terminal.note(text),
    })
    return EXIT.ok
  },
}

/** The fleet to stop at the end. Null when one runs already in the data directory. */
async function localFleet(context: Context, line: CommandLine): Promise<AsyncDisposable | null> {
  const { url, dataDir } = context.config
  if (textFlag(line, 'url') !== undefined || url !== undefined)
    throw new UsageError('--local starts a fleet here, so it cannot be combined with --url or COFFERDAM_URL.')
  const connect = async (): Promise<void> => {
    // Otherwise the fleet of another data directory would answer at the default address.
    if (!existsSync(apiUrlFile(dataDir))) throw new CommandFailure(`No fleet runs in ${dataDir}.`)
    await openApi(context, line).call('GET', '/healthz')
  }
  const isRunning = await connect().then(
    () => true,
    () => false,
  )
  return isRunning ? null : startLocalFleet(context, connect)
}

function clientOf(name: string): McpClient {
  const known = MCP_CLIENTS.find((client) => client === name)
  if (known === undefined)
    throw new UsageError(
      `--print-config expects one of ${MCP_CLIENTS.join(', ')}, got ${JSON.stringify(name)}.`,
    )
  return known
}

/**
 * The API knows the tenant of a tenant key. The admin key of `up` has no tenant, so the URL names the demo
 * tenant.
 */
function endpointOf({ config }: Context, line: CommandLine, { url }: ApiConnection): string {
  const endpoint = new URL(`${url}/mcp`)
  const named = {
    tenant_id: textFlag(line, 'tenant') ?? (config.apiKey === undefined ? 'demo' : undefined),
    agent_id: textFlag(line, 'agent'),
    template_id: textFlag(line, 'template'),
  }
  for (const [name, value] of Object.entries(named))
    if (value !== undefined) endpoint.searchParams.set(name, value)
  return endpoint.href
}

function targetOf(context: Context, line: CommandLine, api: ApiConnection): McpTarget {
  const flags = ['tenant', 'agent', 'template'].flatMap((name) => {
    const value = textFlag(line, name)
    return value === undefined ? [] : [`--${name}`, value]
  })
  const { url, apiKey, dataDir } = context.config
  return {
    url: endpointOf(context, line, api),
    command: process.execPath,
    args: [BIN, 'mcp', ...flags],
    env: {
      COFFERDAM_DATA_DIR: dataDir,
      ...(url === undefined && textFlag(line, 'url') === undefined ? {} : { COFFERDAM_URL: api.url }),
      ...(apiKey === undefined ? {} : { COFFERDAM_API_KEY: 'cfd_…' }),
    },
  }
}
