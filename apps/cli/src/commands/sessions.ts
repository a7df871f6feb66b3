import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { acceptedSchema, BOUNDS, parse } from '@cofferdam/contract'
import { z } from 'zod'
import { encodePath, openApi, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb, listOf, textFlag, verbUsage, type Verb } from '../parse-command-line.ts'
import { sessionOutputs } from '../session-outputs.ts'
import { table } from '../table.ts'
import { UsageError } from '../usage-error.ts'

interface Call {
  api: ApiConnection
  words: readonly string[]
  /** Names the tenant. Empty for a tenant's own key. */
  query: { tenant_id?: string }
  /** The value of --output. */
  output: string | undefined
  context: Context
}

const VERBS: Record<string, Verb<(call: Call) => Promise<void>>> = {
  ls: { usage: '', run: list },
  rm: { usage: 'BACKEND/KEY', run: end },
  pause: { usage: 'BACKEND/KEY', run: (call) => act(call, 'pause', 'Paused.') },
  resume: { usage: 'BACKEND/KEY', run: (call) => act(call, 'resume', 'Runs.') },
  fork: { usage: 'BACKEND/KEY NEW-KEY[,NEW-KEY]', run: fork },
  files: { usage: 'BACKEND/KEY [FOLDER]', run: files },
  get: { usage: 'BACKEND/KEY PATH [FILE]', run: get },
  put: { usage: 'BACKEND/KEY FILE [PATH]', run: put },
  outputs: { usage: 'ID [PATH]', run: sessionOutputs },
}

export const command: Command = {
  usage: verbUsage(VERBS),
  details:
    'A session is named by its backend and its key. Each command waits its turn, behind what runs in the ' +
    'session now.\n' +
    'pause saves it to disk until its next execution, or until resume. fork makes paused copies of it.\n' +
    'outputs needs no sandbox. It lists the newest version of each file that was collected from the ' +
    'session ID, or gets one\n' +
    'of them. ID is the run_id of the collections.',
  flags: {
    tenant: {
      type: 'string',
      value: 'NAME',
      description: 'tenant of the session; needed with an admin key, which has no tenant',
    },
    output: {
      type: 'string',
      value: 'FILE',
      description: 'for outputs ID PATH: the file to write (default: the name of the output, here)',
    },
    ...API_FLAGS,
  },
  words: { min: 1, max: 4 },
  examples: [
    'cofferdam sessions ls --tenant demo',
    'cofferdam sessions put docker/notebook data.csv --tenant demo',
    'cofferdam sessions get docker/notebook out/plot.png plot.png --tenant demo',
    'cofferdam sessions rm docker/notebook --tenant demo',
    'cofferdam sessions pause microvm/notebook --tenant demo',
    'cofferdam sessions fork microvm/notebook try-1,try-2 --tenant demo',
    'cofferdam sessions outputs sesn_0123 --tenant demo',
    'cofferdam sessions outputs sesn_0123 report.pdf --output report.pdf --tenant demo',
  ],
  async run(context, line) {
    const { run, words } = findVerb('sessions', VERBS, line.words)
    const tenant = textFlag(line, 'tenant')
    const query = tenant === undefined ? {} : { tenant_id: tenant }
    const output = textFlag(line, 'output')
    if (output !== undefined && (line.words[0] !== 'outputs' || words.length < 2))
      throw new UsageError('--output needs a file to get: cofferdam sessions outputs ID PATH --output FILE.')
    await run({ api: openApi(context, line), words, query, output, context })
    return EXIT.ok
  },
}

/** `/v1/backends/{backend}/sessions/{key}` of BACKEND/KEY. */
function pathOf(word = ''): string {
  const [backend = '', key = '', ...rest] = word.split('/')
  if (backend === '' || key === '' || rest.length > 0)
    throw new UsageError(`Expected a session as BACKEND/KEY, got ${JSON.stringify(word)}.`)
  return `/v1/backends/${encodeURIComponent(backend)}/sessions/${encodeURIComponent(key)}`
}

const withQuery = (route: string, query: Record<string, string>): string =>
  `${route}?${new URLSearchParams(query).toString()}`

const filePathOf = (session: string | undefined, file: string): string =>
  `${pathOf(session)}/files/${encodePath(file)}`

// Unknown fields are allowed, because a newer API may send more.
const sessionRow = z.object({
  tenant_id: z.string(),
  backend: z.string(),
  key: z.string(),
  scope: z.string(),
  state: z.string(),
  used_at: z.string(),
  idle_at: z.string(),
})
const pageSchema = z.object({ sessions: z.array(sessionRow.loose()), next_cursor: z.string().nullable() })
const forksSchema = z.object({ sessions: z.array(z.object({ key: z.string(), session_id: z.string() })) })
const filesSchema = z.object({
  files: z.array(z.object({ path: z.string(), size: z.number() })),
  truncated: z.boolean(),
})

async function list({ api, query, context: { terminal } }: Call): Promise<void> {
  const sessions: z.infer<typeof pageSchema>['sessions'] = []
  for await (const page of api.pages(pageSchema, '/v1/sessions', query)) sessions.push(...page.sessions)
  terminal.value(sessions)
  const rows = sessions.map((one) => [
    `${one.backend}/${one.key}`,
    one.scope,
    one.state,
    one.used_at,
    one.idle_at,
  ])
  terminal.lines(table(['SESSION', 'SCOPE', 'STATE', 'USED', 'ENDS IF IDLE'], rows))
}

async function end({ api, words: [session], query, context }: Call): Promise<void> {
  tell(context, await api.call('DELETE', withQuery(pathOf(session), query)), 'Ended.')
}

async function act(
  { api, words: [session], query, context }: Call,
  verb: string,
  done: string,
): Promise<void> {
  tell(context, await api.call('POST', withQuery(`${pathOf(session)}/${verb}`, query)), done)
}

async function fork({ api, words: [session, keys = ''], query, context: { terminal } }: Call): Promise<void> {
  const route = withQuery(`${pathOf(session)}/fork`, query)
  const made = await api.ask(forksSchema.or(acceptedSchema), 'POST', route, { keys: listOf(keys) })
  terminal.value(made)
  if ('execution_id' in made) return terminal.note(waiting(made.execution_id))
  for (const { key } of made.sessions) terminal.line(`Made ${key}, which is paused.`)
}

async function files({ api, words: [session, folder], query, context: { terminal } }: Call): Promise<void> {
  const asked = { ...query, ...(folder === undefined ? {} : { folder }) }
  const route = withQuery(`${pathOf(session)}/files`, asked)
  const found = await api.ask(filesSchema.or(acceptedSchema), 'GET', route)
  terminal.value(found)
  if ('execution_id' in found) return terminal.note(waiting(found.execution_id))
  const rows = found.files.map(({ path: name, size }) => [size, JSON.stringify(name)])
  terminal.lines(table(['BYTES', 'PATH'], rows))
  if (found.truncated) terminal.note('There are more. Name a folder to see its files.')
}

async function get({ api, words: [session, from = '', to], query, context }: Call): Promise<void> {
  const bytes = await api.bytes(withQuery(filePathOf(session, from), query))
  const target = path.resolve(context.cwd, to ?? path.posix.basename(from))
  await writeFile(target, bytes)
  context.terminal.value({ file: target, bytes: bytes.length })
  context.terminal.line(`${bytes.length} bytes in ${target}`)
}

async function put({ api, words: [session, from = '', to], query, context }: Call): Promise<void> {
  const bytes = await readFile(path.resolve(context.cwd, from))
  if (bytes.length > BOUNDS.fileBytes)
    throw new UsageError(
      `${from} has ${bytes.length} bytes; a file of a session has at most ${BOUNDS.fileBytes}.`,
    )
  const target = filePathOf(session, to ?? path.basename(from))
  tell(context, await api.call('PUT', withQuery(target, query), bytes), 'Written.')
}

/** Reports that the operation is done, or which execution will do it. */
function tell({ terminal }: Context, answer: unknown, done: string): void {
  const accepted = answer === undefined ? null : parse(acceptedSchema, answer, 'the answer')
  terminal.value(accepted ?? { ok: true })
  terminal.line(accepted === null ? done : waiting(accepted.execution_id))
}

const waiting = (executionId: string): string =>
  `The session is in use. ${executionId} will do it in its turn (see cofferdam status ${executionId}).`
