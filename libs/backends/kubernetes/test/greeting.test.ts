/** The greeting of a worker and a session's pod over TCP: `greet-pod.ts` with `pod.py` and impostors. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '@cofferdam/embedded/testing'
import { agentOptions, createGuestSession, installGuest } from '@cofferdam/sandbox/guest'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { greetAgain, greetFresh } from '../src/greet-pod.ts'
import { python } from '@cofferdam/backend-remote/testing'

/** How long to wait for an action of another process. */
const SOON = { timeout: 30_000, interval: 20 }

describe.runIf(process.platform === 'linux')('the greeting of a session’s pod', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-kubernetes-greeting-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  async function connected(ip: string, port: number): Promise<Socket> {
    const socket = createConnection(port, ip)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }

  it('uses a port that no program can listen on, from the first worker to the second', async () => {
    // Starts pod.py with the image's arguments but on this host, because the double's pods listen on Unix
    // sockets.
    const place = mkdtempSync(join(folder, 'pod-'))
    for (const path of [folder, place]) chmodSync(path, 0o777)
    const port = await freePort()
    const guest = join(folder, 'guest')
    await installGuest(guest, '/usr/bin/python3')
    const argv = ['-I', '-S', join(guest, 'pod.py'), String(port), '--work', join(place, 'work')]
    const process = spawn('/usr/bin/python3', argv, { stdio: 'inherit' })
    const exited = once(process, 'exit')
    const pod = { claim: 'cofferdam-c', name: hostname(), ip: '127.0.0.1' }
    const right = Buffer.alloc(32, 7)
    const signal = AbortSignal.timeout(40_000)
    const options = agentOptions({ language: 'python', cell: true })
    async function said(readable: Socket, source: string): Promise<string> {
      const session = createGuestSession({ readable, writable: readable })
      await session.ready(signal)
      const parts: string[] = []
      const onOutput = (_: string, chunk: Uint8Array): void => void parts.push(Buffer.from(chunk).toString())
      const maxOutputBytes = { stdout: 1000, stderr: 1000 }
      await session.run(python(source), { onOutput, maxOutputBytes, signal }, {})
      await session.clean('files', signal)
      session.close()
      return parts.join('')
    }
    const bind = `import errno, socket
def bound(family, host, option):
    other = socket.socket(family)
    if option: other.setsockopt(socket.SOL_SOCKET, option, 1)
    try: other.bind((host, ${port})); other.listen()
    except OSError as error: return errno.errorcode[error.errno]
    return 'bound'
open('n', 'w').write('kept')
print({bound(socket.AF_INET, host, option) for host in ('', '127.0.0.1', '127.0.0.2') for option in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT)})`
    const first = await vi.waitFor(() => connected('127.0.0.1', port), SOON)
    await greetFresh(first, pod, options, { key: right, fence: 1 }, signal)
    expect(await said(first, bind)).toBe("{'EADDRINUSE'}\n")
    const again = await connected('127.0.0.1', port)
    await greetAgain(again, pod, { key: right, fence: 2 }, signal)
    expect(await said(again, "print(open('n').read())")).toBe('kept\n')
    const last = await connected('127.0.0.1', port)
    await greetAgain(last, pod, { key: right, fence: 3 }, signal)
    const session = createGuestSession({ readable: last, writable: last })
    await session.ready(signal)
    // After this request the pod is not clean any more, so it ends instead of waiting for another worker.
    await session.list(['*'], 10)
    session.close()
    expect(await exited).toEqual([0, null])
  })

  describe('with an impostor in place of the pod', () => {
    /** A server that receives one line and answers with another. */
    async function impostor(answer: object): Promise<{ port: number; heard: string[]; close: () => void }> {
      const heard: string[] = []
      const listening = createServer((socket) => {
        socket.on('error', () => undefined)
        socket.on('data', (data) => {
          heard.push(String(data))
          socket.write(`${JSON.stringify(answer)}\n`)
        })
      }).listen(0, '127.0.0.1')
      await once(listening, 'listening')
      return { port: (listening.address() as AddressInfo).port, heard, close: () => listening.close() }
    }
    const pod = { claim: 'cofferdam-c', name: 'p', ip: '127.0.0.1' }
    const hold = { key: Buffer.alloc(32, 7), fence: 1 }
    const inTime = (): AbortSignal => AbortSignal.timeout(20_000)

    it('sends neither proof nor frames to an impostor without the key', async () => {
      const other = await impostor({ nonce: 'n', proof: 'a'.repeat(64) })
      const socket = await connected('127.0.0.1', other.port)
      await expect(greetAgain(socket, pod, hold, inTime())).rejects.toMatchObject({
        code: 'sandbox_open_failed',
      })
      socket.destroy()
      expect(other.heard).toHaveLength(1)
      expect(other.heard[0]).not.toContain('proof')
      other.close()
    })

    it('starts no session in an old image', async () => {
      const older = await impostor({ pod: 'p' })
      const socket = await connected('127.0.0.1', older.port)
      await expect(greetFresh(socket, pod, [], hold, inTime())).rejects.toThrow(/image is older/)
      socket.destroy()
      older.close()
    })
  })
})
