/** Files of a code pool's sessions, in the old and new API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { bytesOf, callJail, Dropped, Refusal } from './exchange.ts'
import { happens, type Faults } from './faults.ts'
import { interpret, type Session } from './session-pool.ts'
import { answer, answerWhole } from './spoil-answer.ts'

interface FileCall {
  request: IncomingMessage
  response: ServerResponse
  path: string
  query: URLSearchParams
}

/** Answers a call below `/files`. */
export async function handleFiles(
  { request, response, path, query }: FileCall,
  session: Session,
  faults: Faults,
): Promise<void> {
  const { method } = request
  const folder = query.get('path') ?? ''
  const inJail = (name: string): string =>
    `/file?path=${encodeURIComponent(folder)}&name=${encodeURIComponent(name)}`
  if (method === 'GET' && path === '/files') {
    const recursive = query.get('recursive') === 'true'
    const found = await interpret<Listed[]>(
      session,
      'GET',
      `/files?path=${encodeURIComponent(folder)}&recursive=${recursive}`,
    )
    return answerWhole(response, 200, { value: found.map((entry) => fileOf(entry)) })
  }
  if (method === 'POST' && (path === '/files' || path === '/files/upload')) {
    const { name, bytes } = await uploaded(request)
    const put = await callJail(session.jail.socket, 'PUT', inJail(name), bytes)
    if (put.status !== 200) throw new Refusal(400, 'SessionRequestValidationFailed', put.body.toString())
    const entry = {
      name,
      isDirectory: false,
      size: bytes.length,
      modified: Date.now() / 1000,
      directory: folder,
    }
    if (path === '/files') return answer(faults, response, 200, fileOf(entry))
    const properties = { filename: name, size: bytes.length, lastModifiedTime: new Date().toISOString() }
    return answer(faults, response, 200, { value: [{ properties }] })
  }
  const name = decodeURIComponent(
    /^\/files\/content\/([^/]+)$/.exec(path)?.[1] ?? /^\/files\/([^/]+)(\/content)?$/.exec(path)?.[1] ?? '',
  )
  if (method === 'DELETE') {
    await interpret(session, 'DELETE', inJail(name))
    return answerWhole(response, 204)
  }
  const got = await callJail(session.jail.socket, 'GET', inJail(name))
  if (got.status !== 200) throw new Refusal(404, 'FileNotFound', 'There is no such file.')
  if (path.includes(faults.drop_path) && happens(faults, 'drop_after')) throw new Dropped()
  response.writeHead(200, {
    'Content-Type': 'application/octet-stream',
    'Content-Length': String(got.body.length),
  })
  response.end(got.body)
}

interface Listed {
  name: string
  isDirectory: boolean
  size: number
  modified: number
  directory: string
}

const fileOf = (entry: Listed): Record<string, unknown> => ({
  name: entry.name,
  type: entry.isDirectory ? 'Directory' : 'File',
  ...(entry.isDirectory ? {} : { contentType: 'application/octet-stream', sizeInBytes: entry.size }),
  lastModifiedAt: new Date(entry.modified * 1000).toISOString(),
  directory: entry.directory,
})

/** Returns the first file of a multipart body. */
async function uploaded(request: IncomingMessage): Promise<{ name: string; bytes: Buffer }> {
  const form = await new Response(new Uint8Array(await bytesOf(request)), {
    headers: { 'Content-Type': request.headers['content-type'] ?? '' },
  })
    .formData()
    .catch(() => {
      throw new Refusal(400, 'SessionRequestValidationFailed', 'The body is no form.')
    })
  for (const part of form.values())
    if (typeof part !== 'string') {
      if (!/^[\w. ()-]{1,255}$/.test(part.name) || /^\.+$/.test(part.name))
        throw new Refusal(400, 'SessionRequestValidationFailed', 'The name of the file is not allowed.')
      return { name: part.name, bytes: Buffer.from(await part.arrayBuffer()) }
    }
  throw new Refusal(400, 'SessionRequestValidationFailed', 'The form has no file.')
}
