/** `cofferdam sessions outputs`: lists what was collected from a session, or writes one output to a file. */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { encodePath, type ApiConnection } from './api-connection.ts'
import type { Context } from './command.ts'
import { table } from './table.ts'

interface OutputsCall {
  api: ApiConnection
  context: Context
  /** Names the tenant. Empty for a tenant's own key. */
  query: Record<string, string>
  /** The session, and the output to get. */
  words: readonly string[]
  /** The file to write. Default: the last name of the output, in the current directory. */
  output: string | undefined
}

// Unknown fields are allowed, because a newer API may send more.
const outputSchema = z.object({
  path: z.string(),
  size: z.number(),
  sha256: z.string(),
  execution_id: z.string(),
  stored_at: z.string(),
})
const newestSchema = z.object({
  execution_id: z.string(),
  omitted: z.array(z.object({ path: z.string(), size: z.number(), reason: z.string() })),
  incomplete: z.boolean(),
})
const pageSchema = z.object({
  outputs: z.array(outputSchema.loose()),
  newest: newestSchema.loose().nullable(),
  truncated: z.boolean(),
  next_cursor: z.string().nullable(),
})
type Page = z.infer<typeof pageSchema>

/** The largest page of the API. */
const MAX_ROWS = '500'

export async function sessionOutputs(call: OutputsCall): Promise<void> {
  const [id = '', from] = call.words
  const route = `/v1/sessions/${encodeURIComponent(id)}/outputs`
  await (from === undefined ? list(call, route) : get(call, route))
}

async function list({ api, context: { terminal }, query }: OutputsCall, route: string): Promise<void> {
  const outputs: Page['outputs'] = []
  let newest: Page['newest'] = null
  let truncated = false
  for await (const page of api.pages(pageSchema, route, { ...query, limit: MAX_ROWS })) {
    outputs.push(...page.outputs)
    newest = page.newest
    truncated = page.truncated
  }
  terminal.value({ outputs, newest, truncated })
  if (newest === null) return terminal.line('Nothing was collected from this session, or it has expired.')
  const rows = outputs.map((one) => [one.size, one.stored_at, JSON.stringify(one.path)])
  terminal.lines(table(['BYTES', 'STORED', 'PATH'], rows))
  for (const { path: name, size, reason } of newest.omitted)
    terminal.note(`Left out of ${newest.execution_id}: ${JSON.stringify(name)}, ${size} bytes (${reason})`)
  if (newest.incomplete) terminal.note('There may have been more files than were collected.')
  if (truncated) terminal.note('The session has too many collections, so the oldest are not shown.')
}

async function get(
  { api, context, query, words: [, from = ''], output }: OutputsCall,
  route: string,
): Promise<void> {
  const pieces: Uint8Array[] = []
  const asked = new URLSearchParams(query).toString()
  for await (const piece of api.stream(`${route}/${encodePath(from)}?${asked}`)) pieces.push(piece)
  const bytes = Buffer.concat(pieces)
  const target = path.resolve(context.cwd, output ?? path.posix.basename(from))
  await writeFile(target, bytes)
  context.terminal.value({ file: target, bytes: bytes.length })
  context.terminal.line(`${bytes.length} bytes in ${target}`)
}
