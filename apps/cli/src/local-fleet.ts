/**
 * A fleet for one client of `cofferdam mcp --local`: `cofferdam up` as a child process on a free port. It is
 * a process of its own because stdout belongs to the client. Everything that `up` prints goes to stderr.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { CommandFailure, type Context } from './command.ts'

/** How often to look whether the API answers. */
const LOOK_MS = 200

/** Postgres on a cold and busy machine takes half a minute. */
const READY_MS = 120_000

/** How long to wait for the fleet of another process, once ours has ended. */
const OTHERS_MS = 20_000

/**
 * Starts a fleet in the data directory and waits until its API answers. If another process has claimed the
 * data directory at the same time, its fleet is used instead. `connect` resolves when an API answers.
 * Disposing stops what was started here. Throws `CommandFailure`.
 */
export async function startLocalFleet(
  { config, terminal, stop }: Context,
  connect: () => Promise<void>,
): Promise<AsyncDisposable> {
  terminal.note('No fleet runs here. Starting one …')
  // In the published package, all sources are JavaScript.
  const program = fileURLToPath(new URL(`main${path.extname(import.meta.url)}`, import.meta.url))
  // What it prints may be kept in a log of the client, so it prints no link that signs in.
  const child = spawn(process.execPath, [program, 'up', '--port', '0', '--no-link'], {
    // 2: stderr of this process.
    stdio: ['ignore', 2, 2],
    env: { ...config.environment, COFFERDAM_DATA_DIR: config.dataDir },
    // Ctrl-C of a terminal reaches this process alone, which ends the fleet in order.
    detached: true,
  })
  const exited = once(child, 'exit')
  const fleet = {
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
      await exited
    },
  }
  try {
    await untilReady(connect, stop, exited)
    return fleet
  } catch (error) {
    await fleet[Symbol.asyncDispose]()
    throw error
  }
}

/**
 * Retries `connect`. If our child exits, another process may still be starting its fleet, so retries continue
 * for OTHERS_MS.
 */
async function untilReady(
  connect: () => Promise<void>,
  stop: AbortSignal,
  exited: Promise<unknown>,
): Promise<void> {
  let giveUpAtMs = performance.now() + READY_MS
  void exited.then(() => {
    giveUpAtMs = Math.min(giveUpAtMs, performance.now() + OTHERS_MS)
  })
  for (;;) {
    try {
      await connect()
      return
    } catch (error) {
      stop.throwIfAborted()
      if (performance.now() > giveUpAtMs)
        throw new CommandFailure('The local fleet did not start. What it printed is above.', { cause: error })
    }
    await pause(LOOK_MS, undefined, { signal: stop })
  }
}
