/** What makes a worker use a vendor's double: the section of cofferdam.config.yaml, and the files that it names. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from '@cofferdam/contract'
import { z } from 'zod'

/** Where the doubles' sandboxes have Node.js (libs/backends/remote/double/jail.ts). */
const NODE = '/opt/node/bin/node'
/** What sandboxd asks for in the double of Kubernetes (its README). */
const SANDBOXD_TOKEN = 'cofferdam-double'

/** The line that each double prints first. */
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
])
type Announcement = z.output<typeof announcementSchema>

/** Writes a file and gives its path. */
type Keep = (name: string, text: string) => string

function settingsOf(said: Announcement, runtime: string, keep: Keep): Record<string, unknown> {
  switch (said.double) {
    case 'agentcore': {
      const { access_key_id: id, secret_access_key: secret } = said
      const keys = `[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`
      // The service's own, which is there in every account.
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
 * The lines to paste, for a double that printed `line`. Keys go into files of `folder`, which only this user reads. `runtime`: what the
 * pods of Kubernetes run.
 */
export function settingsFor(line: string, runtime: string, folder: string): string[] {
  const said = parse(announcementSchema, JSON.parse(line))
  const settings = settingsOf(said, runtime, (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  })
  return [
    '# To cofferdam.config.yaml, in the folder of `cofferdam up`:',
    'backends:',
    `  ${said.double}:`,
    // JSON is YAML.
    ...Object.entries(settings).map(([key, value]) => `    ${key}: ${JSON.stringify(value)}`),
    `# Then, in terminals of their own: npx cofferdam up`,
    `#                                  npx cofferdam run examples/hello.py --backend ${said.double}`,
  ]
}
