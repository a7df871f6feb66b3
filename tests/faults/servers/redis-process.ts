/** Plain redis-server processes on ports of this host: for clusters, Sentinels and replicas. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'

export interface RedisProcess {
  port: number
  pid: number
  dir: string
  command(...args: [string, ...(string | number)[]]): Promise<unknown>
  /** Sends SIGKILL, unless the process has already exited. */
  kill(): Promise<void>
  signal(name: NodeJS.Signals): void
}

/**
 * Starts a server (a Sentinel if `args` has a file and `--sentinel`) and waits until it answers. The server
 * dies with this process.
 */
export async function startRedisProcess(dir: string, port: number, args: string[]): Promise<RedisProcess> {
  await mkdir(dir, { recursive: true })
  const own = args.includes('--sentinel')
    ? args
    : ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', '', ...args]
  const child: ChildProcess = spawn('setpriv', ['--pdeathsig', 'KILL', 'redis-server', ...own], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const exited = once(child, 'exit')
  const ended = (): boolean => child.exitCode !== null || child.signalCode !== null
  const command = async (...[name, ...rest]: [string, ...(string | number)[]]): Promise<unknown> => {
    const redis = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => null })
    redis.on('error', () => undefined)
    try {
      await redis.connect()
      return await redis.call(name, ...rest)
    } finally {
      redis.disconnect()
    }
  }
  const deadlineMs = Date.now() + 20_000
  for (;;) {
    if (ended()) throw new Error(`redis-server on port ${port} ended before it answered`)
    const answer = await command('PING').catch(() => null)
    if (answer === 'PONG') break
    if (Date.now() > deadlineMs) throw new Error(`redis-server on port ${port} does not answer`)
    await pause(10)
  }
  return {
    port,
    pid: child.pid ?? 0,
    dir,
    command,
    signal: (name) => void child.kill(name),
    async kill() {
      if (!ended()) child.kill('SIGKILL')
      await exited
    },
  }
}

/** Polls until `read` answers true. */
export async function until(what: string, read: () => Promise<boolean>, withinMs: number): Promise<void> {
  const deadlineMs = Date.now() + withinMs
  while (!(await read().catch(() => false))) {
    if (Date.now() > deadlineMs) throw new Error(`${what}: not within ${withinMs} ms`)
    await pause(20)
  }
}
