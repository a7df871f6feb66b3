/**
 * Data plane of a custom-container pool: passes all paths but three of `/.management` to the session's
 * container.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { bytesOf, callJail, Dropped, Refusal, replyPage } from './exchange.ts'
import { happens, type Faults } from './faults.ts'
import type { SessionPool } from './session-pool.ts'
import { listSessions, shown } from './shown-session.ts'
import { answerWhole } from './spoil-answer.ts'

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
  if (path === '/.management/listSessions') return await listSessions(pool, faults, response, 'management')
  if (identifier === '')
    throw new Refusal(400, 'SessionRequestValidationFailed', 'The query has no identifier.')
  if (path === '/.management/getSession')
    return answerWhole(response, 200, shown(await pool.find(identifier), pool, 'management'))
  if (path === '/.management/stopSession') {
    if (!(await pool.end(identifier)))
      throw new Refusal(400, 'SessionWithIdentifierNotFound', 'There is no session of this identifier.')
    response.writeHead(200, { 'Content-Type': 'text/plain' })
    return void response.end(`Session ${identifier} in session pool ${pool.name} stopped.`)
  }
  const body = await bytesOf(request)
  const { jail } = await pool.of(identifier)
  const type = request.headers['content-type']
  const said = await Promise.race([
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
  if (isMeant && said.status === 200 && happens(faults, 'halve_after'))
    said.body = said.body.subarray(0, said.body.length >> 1)
  response.writeHead(said.status, {
    'Content-Type': said.headers['content-type'] ?? 'application/octet-stream',
    'Content-Length': String(said.body.length),
  })
  response.end(said.body)
}
