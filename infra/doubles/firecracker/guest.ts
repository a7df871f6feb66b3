/**
 * What stands behind the vsock of the double. Today it is a process of this host that runs our guest agent,
 * which speaks as the first process of a virtual machine does (libs/backends/microvm/guest). A virtual machine
 * of QEMU fits the same interface.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { release } from 'node:os'
import { PassThrough, Writable, type Readable } from 'node:stream'

/** Both directions of a connection. */
export interface GuestStream {
  readable: Readable
  writable: Writable
  close(): void
}

export interface Guest {
  /** Resolves when the guest has begun to start, not when it listens. */
  boot(): Promise<void>
  pause(): void
  resume(): void
  /** A stream to a port, or null if nobody listens there. */
  connect(port: number): GuestStream | null
  end(): void
}

/** As libs/backends/microvm/src/engine.ts has them. */
const CONTROL_PORT = 5004
const AGENT_PORT = 5005

export interface ProcessGuestOptions {
  /** Command of the agent, before the options that the thaw gives. */
  agent: readonly string[]
  /** How long it boots. */
  bootMs: number
}

export function createProcessGuest({ agent, bootMs }: ProcessGuestOptions): Guest {
  let listensFrom = Infinity
  let isPaused = false
  let options: string[] = []
  const children = new Set<ChildProcess>()

  /** One line of JSON each way, as vm_init.py has it. */
  function control(): GuestStream {
    let line = ''
    const readable = new PassThrough()
    const writable = new Writable({
      write(chunk: Buffer, _encoding, done) {
        line += chunk.toString('utf8')
        const end = line.indexOf('\n')
        if (end >= 0) {
          const told = JSON.parse(line.slice(0, end)) as { nonce?: string; options?: string[] }
          line = line.slice(end + 1)
          options = told.options ?? []
          readable.write(`${JSON.stringify({ nonce: told.nonce })}\n`)
        }
        done()
      },
    })
    readable.write(`${JSON.stringify({ hello: 1, kernel: release() })}\n`)
    return { readable, writable, close: () => void readable.destroy() }
  }

  function runAgent(): GuestStream {
    const [command = '', ...words] = [...agent, ...options]
    const child = spawn(command, words, { stdio: ['pipe', 'pipe', 'ignore'], env: {} })
    children.add(child)
    child.once('exit', () => children.delete(child))
    child.on('error', () => {})
    child.stdin.on('error', () => {})
    return { readable: child.stdout, writable: child.stdin, close: () => void child.kill('SIGKILL') }
  }

  return {
    boot() {
      listensFrom = performance.now() + bootMs
      return Promise.resolve()
    },
    pause() {
      isPaused = true
    },
    resume() {
      isPaused = false
      listensFrom = Math.min(listensFrom, performance.now())
    },
    connect(port) {
      if (isPaused || performance.now() < listensFrom) return null
      if (port === CONTROL_PORT) return control()
      return port === AGENT_PORT ? runAgent() : null
    },
    end() {
      for (const child of children) child.kill('SIGKILL')
    },
  }
}
