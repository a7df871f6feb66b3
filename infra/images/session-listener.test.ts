/** The listener as a real process, with real requests. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'

const LISTENER = fileURLToPath(new URL('session-listener.py', import.meta.url))
const SESSION = { session_id: 'sesn_01AbC-x', work_id: 'work_01' }
/** The command that serves the session in the tests' pod. It prints its environment variables as JSON. */
const PRINT = ['python3', '-c', 'import json, os; print(json.dumps(dict(os.environ)))']

interface Pod {
  child: ChildProcessByStdio<null, Readable, Readable>
  port: number
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>
}

const pods: Pod[] = []
afterEach(async () => {
  for (const { child } of pods) child.kill('SIGKILL')
  await Promise.all(pods.splice(0).map(({ ended }) => ended))
})

const launch = (args: readonly string[], env: Record<string, string> = {}): Pod['child'] =>
  spawn('python3', ['-I', LISTENER, '--host', '127.0.0.1', '--port', '0', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], ...env },
  })

async function startPod(command = PRINT, env: Record<string, string> = {}): Promise<Pod> {
  const child = launch(['--', ...command], env)
  let said = ''
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    said += piece
    const [, port] = /waits at port (\d+)/.exec(said) ?? []
    if (port !== undefined) resolve(Number(port))
  })
  child.on('close', () => reject(new Error(`the listener ended: ${said}`)))
  const stdout = text(child.stdout)
  const ended = once(child, 'close').then(async ([code]) => ({
    code: code as number | null,
    stdout: await stdout,
    stderr: said,
  }))
  const pod = { child, port: await promise, ended }
  pods.push(pod)
  return pod
}

async function send(
  { port }: Pod,
  body: string | Uint8Array<ArrayBuffer>,
  { method = 'POST', path = '/' } = {},
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    ...(method === 'GET' ? {} : { body }),
  })
  return { status: response.status, body: await response.json() }
}

/** The first line of the answer to bytes that fetch would not send. Empty if the connection just ended. */
async function raw({ port }: Pod, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.end(bytes)
  return (await text(socket).catch(() => '')).split('\r\n')[0] ?? ''
}

describe('a session that is posted', () => {
  it('is served by the command, which has its variables and those of the pod', async () => {
    const pod = await startPod(PRINT, { ANTHROPIC_ENVIRONMENT_ID: 'env_1', ANTHROPIC_WORK_SECRET: 'stale' })
    expect(await send(pod, '', { method: 'GET', path: '/healthz' })).toMatchObject({ status: 200 })
    const answer = await send(pod, JSON.stringify({ ...SESSION, work_secret: 'c2VjcmV0', extra: [1] }))
    expect(answer).toEqual({ status: 202, body: { status: 'accepted' } })
    const { code, stdout, stderr } = await pod.ended
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      ANTHROPIC_ENVIRONMENT_ID: 'env_1',
      ANTHROPIC_SESSION_ID: SESSION.session_id,
      ANTHROPIC_WORK_ID: SESSION.work_id,
      ANTHROPIC_WORK_SECRET: 'c2VjcmV0',
    })
    expect(stderr).not.toContain('c2VjcmV0')
  })

  it('without a secret never gets the secret of another one', async () => {
    const pod = await startPod(PRINT, { ANTHROPIC_WORK_SECRET: 'stale' })
    await send(pod, JSON.stringify(SESSION))
    expect(JSON.parse((await pod.ended).stdout)).not.toHaveProperty('ANTHROPIC_WORK_SECRET')
  })

  it('keeps the process: the command has the same ID, and its exit status is the pod’s', async () => {
    const pod = await startPod(['sh', '-c', 'echo $$; exit 7'])
    await send(pod, JSON.stringify(SESSION))
    expect(await pod.ended).toMatchObject({ code: 7, stdout: `${pod.child.pid}\n` })
  })

  it('is the only one: a second session is refused, also if both come at once', async () => {
    const pod = await startPod()
    const body = JSON.stringify(SESSION)
    const waiting = connect(pod.port, '127.0.0.1')
    waiting.write(`POST / HTTP/1.1\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`)
    // Now it is sure that the request has begun.
    await once(waiting, 'data')
    expect((await send(pod, body)).status).toBe(202)
    waiting.end(body)
    expect(await text(waiting)).toMatch(/^HTTP\/1.1 409 /)
    expect((await pod.ended).code).toBe(0)
  })

  it('is taken once, of many that race', async () => {
    const pod = await startPod()
    const ids = Array.from({ length: 12 }, (_, at) => `sesn_${at}`)
    const answers = await Promise.allSettled(
      ids.map((id) => send(pod, JSON.stringify({ ...SESSION, session_id: id }))),
    )
    const taken = answers.flatMap((answer, at) =>
      answer.status === 'fulfilled' && answer.value.status === 202 ? [ids[at]] : [],
    )
    expect(taken).toHaveLength(1)
    const { ANTHROPIC_SESSION_ID } = JSON.parse((await pod.ended).stdout) as Record<string, string>
    expect(ANTHROPIC_SESSION_ID).toBe(taken[0])
  })
})

describe('a wrong request', () => {
  const wrong: [string, string, RegExp][] = [
    ['no JSON', 'session_id=1', /not JSON/],
    ['an empty body', '', /not JSON/],
    ['a list', '[]', /JSON object/],
    ['deep nesting', '['.repeat(30_000), /not JSON/],
    ['a number of many digits', '9'.repeat(30_000), /not JSON/],
    ['no session', JSON.stringify({ work_id: 'w' }), /session_id must be/],
    ['no work item', JSON.stringify({ session_id: 's' }), /work_id must be/],
    ['a number as ID', JSON.stringify({ ...SESSION, session_id: 1 }), /session_id/],
    ['a path as ID', JSON.stringify({ ...SESSION, session_id: '../x' }), /session_id/],
    ['a line break after an ID', JSON.stringify({ ...SESSION, work_id: 'work_1\n' }), /work_id/],
    ['digits of another script', JSON.stringify({ ...SESSION, work_id: 'work_١' }), /work_id/],
    ['an ID of 129 characters', JSON.stringify({ ...SESSION, work_id: 'w'.repeat(129) }), /work_id/],
    ['a secret with NUL', JSON.stringify({ ...SESSION, work_secret: 'a\0b' }), /work_secret/],
    ['an empty secret', JSON.stringify({ ...SESSION, work_secret: '' }), /work_secret/],
    ['a secret that is no text', JSON.stringify({ ...SESSION, work_secret: { a: 1 } }), /work_secret/],
    ['a body of more than 32 KiB', JSON.stringify({ ...SESSION, pad: 'x'.repeat(33_000) }), /32768 bytes/],
  ]

  it('gets 400 with the reason, and the pod goes on waiting', async () => {
    const pod = await startPod()
    for (const [name, body, reason] of wrong) {
      const answer = await send(pod, body)
      expect(answer.status, name).toBe(400)
      expect((answer.body as { error: string }).error, name).toMatch(reason)
    }
    expect((await send(pod, new Uint8Array([0x7b, 0xff, 0x7d]))).status).toBe(400)
    expect((await send(pod, '{}', { path: '/x' })).status).toBe(404)
    expect((await send(pod, '', { method: 'GET' })).status).toBe(404)
    expect((await send(pod, '{}', { method: 'PUT' })).status).toBe(501)
    expect((await send(pod, JSON.stringify(SESSION))).status).toBe(202)
  })

  it('on the level of HTTP is refused, too', async () => {
    const pod = await startPod()
    const body = JSON.stringify(SESSION)
    const post = (headers: string) => raw(pod, `POST / HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n${body}`)
    expect(await post('Accept: */*')).toContain(' 400 ')
    expect(await post('Content-Length: -1')).toContain(' 400 ')
    expect(await post('Content-Length: 4 2')).toContain(' 400 ')
    expect(await post(`Content-Length: ${body.length}\r\nContent-Length: 3`)).toContain(' 400 ')
    expect(await post(`Content-Length: ${body.length}\r\nTransfer-Encoding: chunked`)).toContain(' 400 ')
    expect(await post(`Content-Length: ${body.length + 1}`)).toContain(' 400 ')
    expect(await raw(pod, `${'A'.repeat(70_000)}\r\n\r\n`)).not.toContain(' 202 ')
    expect(await raw(pod, '\0\x01\x02\r\n\r\n')).not.toContain(' 202 ')
    expect((await send(pod, '', { method: 'GET', path: '/healthz' })).status).toBe(200)
  })

  it('of any form leaves the pod waiting for its session', async () => {
    const pod = await startPod()
    const value = fc.oneof(fc.string(), fc.jsonValue(), fc.constantFrom('a b', 'é', '\n', ''))
    await fc.assert(
      fc.asyncProperty(fc.record({ session_id: value, work_id: fc.constant(' ') }), async (body) => {
        expect((await send(pod, JSON.stringify(body))).status).toBe(400)
      }),
      { numRuns: 50 },
    )
    expect((await send(pod, JSON.stringify(SESSION))).status).toBe(202)
  })

  it('that never comes is cut off, also if 40 clients do that', async () => {
    const pod = await startPod()
    const idle: Socket[] = Array.from({ length: 40 }, () => connect(pod.port, '127.0.0.1'))
    const ended = idle.map((socket) => once(socket.on('error', () => undefined).resume(), 'close'))
    await Promise.all(ended)
    expect((await send(pod, JSON.stringify(SESSION))).status).toBe(202)
  }, 60_000)
})

describe('the process', () => {
  it('ends at once if there is no such command', async () => {
    const child = launch(['--', 'no-such-command'])
    const said = text(child.stderr)
    expect(await once(child, 'close')).toEqual([2, null])
    expect(await said).toContain('there is no command no-such-command')
  })

  it('ends with SIGTERM while it waits', async () => {
    const pod = await startPod()
    pod.child.kill('SIGTERM')
    expect((await pod.ended).code).toBe(0)
  })
})
