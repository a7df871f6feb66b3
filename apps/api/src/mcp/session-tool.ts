/** `session_files`: the files of a session that has a sandbox now. */
import {
  BOUNDS,
  CofferdamError,
  pathSchema,
  type ExecutionResult,
  type SessionInfo,
} from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { requireEnded } from '../find-execution.ts'
import { mediaTypeOf } from '../media-type.ts'
import { operateOnSession } from '../session-operation.ts'
import { namedFields } from '../wire-schemas.ts'
import { imageTypeOf } from './artifact-content.ts'
import { cleanText, headAndTail } from './clean-text.ts'
import { identityOf } from './exchange.ts'
import { artifactUri } from './resource-uris.ts'
import { sessionArgument } from './program-arguments.ts'
import { defineTool, type ToolCall } from './tool.ts'
import { liveResult } from './tool-result.ts'

/** The most bytes of a file's text in an answer. The link has the whole file. */
const TEXT_BYTES = 32 * 1024
const IMAGE_BYTES = 1024 * 1024

const input = z.strictObject({
  session: sessionArgument,
  op: z.enum(['list', 'read', 'write', 'remove', 'end']),
  path: pathSchema.optional().describe('The file, or for list a folder.'),
  content: z.string().max(BOUNDS.fileBytes).optional().describe('For write: the text of the file.'),
  content_base64: z
    .string()
    .max(BOUNDS.fileBytes * 2)
    .optional()
    .describe('For write: its bytes instead.'),
})
type Input = z.output<typeof input>

const output = z.looseObject({
  session: z.string(),
  op: z.string(),
  execution_id: z.string().optional(),
  files: z.array(z.looseObject({ path: z.string(), size: z.int() })).optional(),
  truncated: z.boolean().optional().describe('There is more than this answer has.'),
  path: z.string().optional(),
  size: z.int().optional(),
  content: z.string().optional().describe('Text of the file. Absent for other files: use the uri.'),
  uri: z.string().optional(),
  status: z.string().optional().describe('Set if the session is busy: call get_execution.'),
})

export const sessionFiles = defineTool({
  name: 'session_files',
  title: 'Files of a session',
  description:
    'List, read, write or remove files in the work directory of a session that an earlier call began, or ' +
    'end the session and destroy its sandbox. Each call waits its turn behind the programs of the ' +
    'session. Files of at most 8 MiB. Images come back as images, other binary files as links.',
  input,
  output,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  scope: 'cofferdam:run',
  call: async (args, call) => {
    const { op, session } = args
    const who = identityOf(call, call.meta, call.id)
    const { backend } = await findByKey(call, who.tenant_id, session)
    const done = await operateOnSession(call.context, call.request, call.reply, {
      params: { backend, key: session },
      query: namedFields({
        tenant_id: who.tenant_id,
        agent_id: who.agent_id,
        template_id: who.template_id,
      }) as { agent_id: string },
      op,
      ...namedFields({ path: pathFor(args) }),
      ...(op === 'write' ? { files: [fileOf(args)] } : {}),
    })
    if (done.accepted !== null) {
      const { content, structuredContent } = liveResult(done.accepted)
      return { content, structuredContent: { ...(structuredContent as object), session, op } }
    }
    return answerOf(args, call, done.tenantId, done.result)
  },
})

/** The newest session of that name. Throws `session_not_found`. */
async function findByKey({ context }: ToolCall, tenantId: string, key: string): Promise<SessionInfo> {
  for (let cursor: string | undefined; ;) {
    const page = await context.sessions.list(tenantId, cursor)
    const found = page.sessions.find((session) => session.key === key)
    if (found !== undefined) return found
    if (page.cursor === null)
      throw new CofferdamError(
        'session_not_found',
        `There is no session ${key} now. It never began, or it was idle for too long.`,
      )
    cursor = page.cursor
  }
}

/** The `path` of the operation. Undefined for a write, which names its file in `files`, and for `end`. */
function pathFor({ op, path }: Input): string | undefined {
  if (path === undefined && op !== 'list' && op !== 'end')
    throw new CofferdamError('invalid_request', `path: expected the path of a file with op "${op}"`)
  return op === 'write' || op === 'end' ? undefined : path
}

const fileOf = ({ path, content, content_base64 }: Input): { path: string; content?: string } => ({
  path: path ?? '',
  ...namedFields({ content, content_base64 }),
})

const listing = z.looseObject({
  files: z.array(z.looseObject({ path: z.string(), size: z.number() })),
  truncated: z.boolean(),
})

async function answerOf(
  { op, session, path = '' }: Input,
  call: ToolCall,
  tenantId: string,
  result: ExecutionResult,
): Promise<CallToolResult> {
  if (op === 'list') {
    const { files, truncated } = listing.parse(result.value)
    const lines = files.map((file) => `${cleanText(file.path)} (${file.size} bytes)`).join('\n')
    const text = files.length === 0 ? 'The folder is empty.' : headAndTail(lines, 20_000)
    return { content: [{ type: 'text', text }], structuredContent: { session, op, files, truncated } }
  }
  if (op === 'read') return fileAnswer(call, tenantId, result, { op, session, path })
  const text = { write: `Wrote ${path}.`, remove: `Removed ${path}.`, end: 'The session has ended.' }[op]
  return { content: [{ type: 'text', text }], structuredContent: { session, op } }
}

async function fileAnswer(
  { context }: ToolCall,
  tenantId: string,
  { execution_id }: ExecutionResult,
  asked: { op: string; session: string; path: string },
): Promise<CallToolResult> {
  const { artifactRefs } = await requireEnded(context, tenantId, execution_id)
  const [file] = artifactRefs
  const blob =
    file === undefined ? null : await context.store.blobs.read(file.ref, { start: 0, end: IMAGE_BYTES })
  if (file === undefined || blob === null) throw new CofferdamError('not_found', 'The file is gone.')
  const uri = artifactUri(execution_id, file.path)
  const bytes = Buffer.from(blob.bytes)
  const isWhole = bytes.length === blob.total
  const known = { ...asked, execution_id, size: blob.total, uri }
  const mimeType = imageTypeOf(bytes)
  if (mimeType !== null && isWhole)
    return {
      content: [{ type: 'image', data: bytes.toString('base64'), mimeType }],
      structuredContent: known,
    }
  const isText = isWhole && isUtf8(bytes)
  const link = {
    type: 'resource_link' as const,
    uri,
    name: asked.path,
    size: blob.total,
    mimeType: mediaTypeOf(bytes, blob.total),
  }
  if (!isText) return { content: [link], structuredContent: known }
  const content = bytes.subarray(0, TEXT_BYTES).toString().toWellFormed()
  const truncated = bytes.length > TEXT_BYTES
  return {
    content: [{ type: 'text', text: headAndTail(cleanText(content), 20_000) }, ...(truncated ? [link] : [])],
    structuredContent: { ...known, content, truncated },
  }
}
