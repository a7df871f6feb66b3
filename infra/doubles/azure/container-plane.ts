/** The data plane of a custom-container pool: every path goes to the session's container, but those below `/.management`. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { bytesOf, callJail, Dropped, Refusal, reply, replyPage } from './exchange.ts'
import { happens, type Faults } from './faults.ts'
import type { SessionPool } from './session-pool.ts'
import { listSessions, shown } from './shown-session.ts'

/** Answers one authorised call. */
export async function handleContainerCall(
  pool: SessionPool,
  faults: Faults,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
  identifier: string,
): Promise<void> {
  const { pathname: path } = url
  if (path === '/.management/listSessions')
    return await listSessions(pool, faults, response, url.searchParams)
  if (identifier === '')
    throw new Refusal(400, 'SessionRequestValidationFailed', 'The query has no identifier.')
  if (path === '/.management/getSession')
    return reply(response, 200, shown(await pool.find(identifier), pool, false))
  if (path === '/.management/stopSession') {
    if (!(await pool.end(identifier)))
      throw new Refusal(400, 'SessionWithIdentifierNotFound', 'There is no session of this identifier.')
    response.writeHead(200, { 'Content-Type': 'text/plain' })
    return void response.end('Session stopped.')
  }
  const body = await bytesOf(request)
  const { jail } = await pool.of(identifier)
  const type = request.headers['content-type']
  const answer = await Promise.race([
    callJail(
      jail.socket,
      request.method ?? 'GET',
      path + url.search,
      body,
      type === undefined ? {} : { 'Content-Type': type },
    ),
    jail.ended.then(() => {
      throw new Refusal(502, 'BadGateway', 'The container ended.')
    }),
  ]).catch((error: unknown) => {
    throw error instanceof Refusal ? error : new Refusal(502, 'BadGateway', 'The container does not answer.')
  })
  const isMeant = path.includes(faults.drop_path)
  if (isMeant && happens(faults, 'drop_after')) throw new Dropped()
  if (isMeant && happens(faults, 'page_after')) return replyPage(response, faults.page_status)
  if (isMeant && answer.status === 200 && happens(faults, 'halve_after'))
    answer.body = answer.body.subarray(0, answer.body.length >> 1)
  response.writeHead(answer.status, {
    'Content-Type': answer.headers['content-type'] ?? 'application/octet-stream',
    'Content-Length': String(answer.body.length),
  })
  response.end(answer.body)
}
