/** Tests with a fake daemon on a unix socket: its answers about a container that was told to end. */
import { createServer, type RequestListener } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connectDaemon, type Daemon } from './daemon.ts'
import { destroyContainer, endedByItself } from './destroy-container.ts'

const NAME = 'cofferdam-sbx_1'
/** Longer than any answer here takes. */
const WITHIN_MS = 60_000

/** `asked` collects method and path of every call. */
async function daemonThat(answer: RequestListener): Promise<{ daemon: Daemon; asked: string[] }> {
  const asked: string[] = []
  const folder = await mkdtemp(join(tmpdir(), 'cofferdam-docker-'))
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    answer(request, response)
  })
  const host = join(folder, 'd.sock')
  await new Promise<void>((resolve) => server.listen(host, resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await rm(folder, { recursive: true })
  })
  return { daemon: await connectDaemon({ host, api_timeout_ms: 60_000 }), asked }
}

const says =
  (status: number, body: unknown): RequestListener =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

/** Answers the daemon's list of containers with `names`, and every other call with `answer`. */
const listing =
  (answer: RequestListener, names: () => string[] = () => []): RequestListener =>
  (request, response) =>
    request.url?.startsWith('/containers/json') === true
      ? says(
          200,
          names().map((name) => ({ Names: [`/${name}`] })),
        )(request, response)
      : answer(request, response)

test('makes no further call if the daemon has removed the container by itself', async () => {
  const { daemon, asked } = await daemonThat(says(200, { StatusCode: 0, Error: null }))
  expect(await endedByItself(daemon, NAME, WITHIN_MS)).toBe(true)
  expect(asked).toEqual([`POST /containers/${NAME}/wait?condition=removed`])
})

test('reports a missing container as ended', async () => {
  const { daemon } = await daemonThat(listing(says(404, { message: `No such container: ${NAME}` })))
  expect(await endedByItself(daemon, NAME, WITHIN_MS)).toBe(true)
})

test.each([
  ['could not remove it', says(200, { StatusCode: 0, Error: { Message: 'driver failed to remove' } })],
  ['refuses', says(403, { message: 'forbidden' })],
])('kills and removes the container if the daemon %s', async (_what, answer) => {
  const { daemon } = await daemonThat(answer)
  expect(await endedByItself(daemon, NAME, WITHIN_MS)).toBe(false)
})

test('does not wait for a daemon that does not answer', async () => {
  const { daemon } = await daemonThat(() => undefined)
  expect(await endedByItself(daemon, NAME, 1)).toBe(false)
})

test('counts a container that the daemon removes between our kill and our remove call', async () => {
  const { daemon } = await daemonThat(
    listing((request, response) =>
      request.method === 'GET'
        ? says(200, { Id: 'f'.repeat(64), State: { Pid: 0 } })(request, response)
        : says(404, { message: `No such container: ${NAME}` })(request, response),
    ),
  )
  expect(await destroyContainer(daemon, NAME, { heedsKillLate: true })).toBe(true)
})

test('does not count a container that never existed', async () => {
  const { daemon } = await daemonThat(listing(says(404, { message: `No such container: ${NAME}` })))
  for (const heedsKillLate of [true, false])
    expect(await destroyContainer(daemon, NAME, { heedsKillLate })).toBe(false)
})

test('waits until the daemon’s list is without the container', async () => {
  let left = 2
  const { daemon, asked } = await daemonThat(
    listing(says(404, { message: `No such container: ${NAME}` }), () => (left-- > 0 ? [NAME] : [])),
  )
  expect(await endedByItself(daemon, NAME, WITHIN_MS)).toBe(false)
  expect(await destroyContainer(daemon, NAME, { heedsKillLate: false })).toBe(false)
  expect(asked.filter((call) => call.startsWith('GET'))).toHaveLength(3)
})
