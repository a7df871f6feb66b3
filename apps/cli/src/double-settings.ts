/**
 * The lines that `cofferdam double` prints for the settings of the user, and the key files that they name.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from '@cofferdam/contract'
import { z } from 'zod'
import { DEFAULT_PORT } from './config.ts'

/** The path of Node.js in the emulators' sandboxes (libs/backends/remote/double/jail.ts). */
const NODE = '/opt/node/bin/node'
/** The token that sandboxd expects in the Kubernetes emulator (see its README). */
const SANDBOXD_TOKEN = 'cofferdam-double'

/** The line that each emulator prints first. */
const announcementSchema = z.discriminatedUnion('double', [
  z.object({
    double: z.literal('agentcore'),
    origin: z.string(),
    access_key_id: z.string(),
    secret_access_key: z.string(),
  }),
  z.object({
    double: z.literal('azure'),
    identity_endpoint: z.string(),
    identity_header: z.string(),
    pools: z.object({ python: z.string() }),
  }),
  z.object({ double: z.literal('e2b'), origin: z.string(), api_key: z.string() }),
  z.object({ double: z.literal('kubernetes'), api_server: z.string() }),
  z.object({
    double: z.literal('managed-agents'),
    origin: z.string(),
    environment_id: z.string(),
    environment_key: z.string(),
    api_key: z.string(),
  }),
  z.object({ double: z.literal('oauth'), issuer: z.string() }),
  z.object({
    double: z.literal('firecracker'),
    firecracker: z.string(),
    jailer: z.string(),
    record: z.string(),
    image_dir: z.string().optional(),
    chroot_base: z.string().optional(),
  }),
])
type Announcement = z.output<typeof announcementSchema>
type BackendAnnouncement = Exclude<Announcement, { double: 'managed-agents' | 'oauth' | 'firecracker' }>

/** Writes a file and returns its path. */
type Keep = (name: string, text: string) => string

function settingsOf(said: BackendAnnouncement, runtime: string, keep: Keep): Record<string, unknown> {
  switch (said.double) {
    case 'agentcore': {
      const { access_key_id: id, secret_access_key: secret } = said
      const keys = `[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`
      // The service's own interpreter, which every account has.
      const interpreter = 'aws.codeinterpreter.v1'
      return {
        region: 'us-east-1',
        endpoint: said.origin,
        credentials_file: keep('aws-credentials', keys),
        interpreters: { 'default-public': interpreter, 'internal-only': interpreter },
        node: NODE,
      }
    }
    case 'azure':
      return {
        enabled: true,
        interpreter_endpoint: said.pools.python,
        identifier_secret_file: keep('identifier-secret', 'not a secret: names of sessions at a double'),
        credentials: ['managed-identity'],
        identity_endpoint: said.identity_endpoint,
        identity_header_file: keep('identity-header', said.identity_header),
      }
    case 'e2b':
      return {
        api_key_file: keep('api-key', said.api_key),
        api_url: said.origin,
        sandbox_url: said.origin,
        node: NODE,
      }
    case 'kubernetes': {
      const own = { api_server: said.api_server, token_file: null }
      if (runtime === 'cofferdam') return own
      const token_file = runtime === 'sandboxd' ? keep('sandboxd-token', SANDBOXD_TOKEN) : null
      const foreign = { root: '/home/user', python: '/usr/bin/python3', node: NODE, token_file }
      return { ...own, runtime, foreign }
    }
  }
}

/**
 * The lines that connect a fleet to an emulator that printed `line`, for cofferdam.config.yaml or a shell.
 * Writes keys to files in `folder` that only this user can read. `runtime` is the runtime of the Kubernetes
 * pods.
 */
export function settingsFor(line: string, runtime: string, folder: string): string[] {
  const said = parse(announcementSchema, JSON.parse(line))
  const keep: Keep = (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }
  if (said.double === 'managed-agents') return dispatcherSettings(said, keep)
  if (said.double === 'oauth') return issuerSettings(said)
  if (said.double === 'firecracker') return programSettings(said)
  const settings = settingsOf(said, runtime, keep)
  return [
    '# Add to cofferdam.config.yaml in the folder where you run `cofferdam up`:',
    'backends:',
    `  ${said.double}:`,
    // JSON is YAML.
    ...Object.entries(settings).map(([key, value]) => `    ${key}: ${JSON.stringify(value)}`),
    `# Then, in other terminals: npx cofferdam up`,
    `#                           npx cofferdam run examples/hello.py --backend ${said.double}`,
  ]
}

/** The lines for the dispatcher, whose executions are the demo tenant's. */
function dispatcherSettings(said: Extract<Announcement, { double: 'managed-agents' }>, keep: Keep): string[] {
  // JSON is YAML.
  const text = (value: string): string => JSON.stringify(value)
  return [
    '# Add to cofferdam.config.yaml in the folder where you run `cofferdam up`:',
    'dispatcher:',
    '  environments:',
    `    - id: ${text(said.environment_id)}`,
    '      tenant_id: demo',
    `      key_file: ${text(keep('environment-key', said.environment_key))}`,
    `      base_url: ${text(said.origin)}`,
  ]
}

/** The lines for a shell. The public address is the one for which clients get their tokens. */
function issuerSettings({ issuer }: Extract<Announcement, { double: 'oauth' }>): string[] {
  const address = `http://127.0.0.1:${DEFAULT_PORT}`
  return [
    '# Start the fleet with:',
    `COFFERDAM_OAUTH_ISSUER=${issuer} COFFERDAM_PUBLIC_URL=${address} npx cofferdam up`,
    `# Then give an MCP client the address ${address}/mcp. It logs in by itself.`,
  ]
}

/** The lines for `microvm` on the emulator's two programs. Without `--machines`, no fleet can use them. */
function programSettings(said: Extract<Announcement, { double: 'firecracker' }>): string[] {
  const { firecracker, jailer, record, image_dir, chroot_base } = said
  const programs = { firecracker, jailer }
  const host = { double: true, ...programs, chroot_base }
  const settings = { engine: 'firecracker', image_dir, firecracker: host }
  const comment = `# Every call of the API is a line of ${record}. Nothing here is isolated.`
  if (image_dir === undefined)
    return [
      '# Settings of the Firecracker engine (libs/backends/microvm/src/firecracker/settings.ts):',
      ...Object.entries(programs).map(([key, path]) => `${key}: ${JSON.stringify(path)}`),
      '# A fleet needs machines as well: cofferdam double firecracker --machines',
      comment,
    ]
  return [
    '# Add to cofferdam.config.yaml in the folder where you run `cofferdam up`, as root:',
    'backends:',
    '  microvm:',
    // JSON is YAML.
    ...Object.entries(settings).map(([key, value]) => `    ${key}: ${JSON.stringify(value)}`),
    comment,
  ]
}
