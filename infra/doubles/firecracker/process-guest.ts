/**
 * A guest that is no machine: a process of this host that runs our guest agent. It answers on the ports like
 * the first process of a virtual machine (libs/backends/microvm/guest). It says hello only after `boot`, not
 * after `load`. Each connection to the agent's port starts an agent.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { truncate, writeFile } from 'node:fs/promises'
import { release } from 'node:os'
import { PassThrough, Writable } from 'node:stream'
import type { Guest, GuestStream } from './guest.ts'

/** The same ports as in libs/backends/microvm/src/engine.ts. */
const CONTROL_PORT = 5004
const AGENT_PORT = 5005
const MiB = 1_048_576

export interface ProcessGuestOptions {
  /** Command of the agent, without the options that the host sends over the control port. */
  agent: readonly string[]
  /** Milliseconds until the guest listens. */
  bootMs: number
}

export function createProcessGuest({ agent, bootMs }: ProcessGuestOptions): Guest {
  let listensFrom = Infinity
  let isPaused = false
  let saysHello = false
  let options: string[] = []
  const children = new Set<ChildProcess>()

  /** The control port: one line of JSON in each direction, as in vm_init.py. */
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
    if (saysHello) readable.write(`${JSON.stringify({ hello: 1, kernel: release() })}\n`)
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
      saysHello = true
      return Promise.resolve()
    },
    pause() {
      isPaused = true
    },
    resume() {
      isPaused = false
    },
    connect(port) {
      if (isPaused || performance.now() < listensFrom) return Promise.resolve(null)
      if (port === CONTROL_PORT) return Promise.resolve(control())
      return Promise.resolve(port === AGENT_PORT ? runAgent() : null)
    },
    async save(state, memory, { memoryMib }) {
      await writeFile(state, 'a process has no state\n')
      await writeFile(memory, '')
      await truncate(memory, memoryMib * MiB)
    },
    load() {
      isPaused = true
      listensFrom = performance.now()
      return Promise.resolve()
    },
    end() {
      for (const child of children) child.kill('SIGKILL')
    },
  }
}
