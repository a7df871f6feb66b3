/**
 * Emulates the hosts of a fleet with network namespaces. Each has its own loopback and one link to a bridge,
 * on which the unix sockets of the stores are reachable over TCP. A cut link loses packets silently, as in a
 * network partition.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'

export interface NetHost {
  /** Command prefix that runs a command on this host. */
  within: readonly string[]
  /** Whether the process runs on this host. */
  holds(pid: number): boolean
  cut(): void
  heal(): void
}

export interface NetHosts extends AsyncDisposable {
  hosts: readonly NetHost[]
  /** Makes a unix socket reachable for the hosts. Resolves with `address:port`. */
  offer(socketPath: string): Promise<string>
}

const ip = (...words: string[]): string =>
  execFileSync('ip', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** Removes bridges of killed test runs: they take the packets of a network with the same number. */
function removeLeft(): void {
  for (const [, id = ''] of ip('-br', 'link', 'show', 'type', 'bridge').matchAll(/^cfb([0-9a-z]+) /gm)) {
    const pid = Number.parseInt(id, 36)
    // A bridge with our own process ID is left over from an earlier process, because we have made none yet.
    if (pid !== process.pid && existsSync(`/proc/${pid}`)) continue
    for (const [name] of ip('netns', 'list').matchAll(new RegExp(`^cfd-${id}-\\d+`, 'gm')))
      ip('netns', 'del', name)
    ip('link', 'del', `cfb${id}`)
  }
}

/**
 * Creates `count` hosts. Interface names have at most 15 characters, so only the process ID makes them
 * unique.
 */
export async function createNetHosts(count: number): Promise<NetHosts> {
  removeLeft()
  await using owned = new AsyncDisposableStack()
  const id = process.pid.toString(36)
  const net = `10.213.${process.pid % 256}`
  const bridge = `cfb${id}`
  ip('link', 'add', bridge, 'type', 'bridge')
  owned.defer(() => void ip('link', 'del', bridge))
  ip('addr', 'add', `${net}.254/24`, 'dev', bridge)
  ip('link', 'set', bridge, 'up')
  const hosts = Array.from({ length: count }, (_, n): NetHost => {
    const name = `cfd-${id}-${n}`
    const cable = `cfv${id}${n}`
    ip('netns', 'add', name)
    owned.defer(() => void ip('netns', 'del', name))
    ip('link', 'add', cable, 'master', bridge, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    // The kernel removes a link some time after its namespace, but the next run may need the name at once.
    owned.defer(() => void ip('link', 'del', cable))
    ip('link', 'set', cable, 'up')
    const inside = (...words: string[]) => ip('-n', name, ...words)
    inside('addr', 'add', `${net}.${n + 1}/24`, 'dev', 'eth0')
    inside('link', 'set', 'lo', 'up')
    inside('link', 'set', 'eth0', 'up')
    return {
      within: ['ip', 'netns', 'exec', name],
      holds: (pid) => ip('netns', 'identify', String(pid)).trim() === name,
      cut: () => void ip('link', 'set', cable, 'down'),
      heal: () => void ip('link', 'set', cable, 'up'),
    }
  })
  const resources = owned.move()
  return {
    hosts,
    async offer(socketPath) {
      const { server, close } = forwarder(socketPath)
      resources.defer(() => close())
      server.listen(0, `${net}.254`)
      await once(server, 'listening')
      const address = server.address()
      return `${net}.254:${typeof address === 'object' && address !== null ? address.port : 0}`
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

/** Forwards TCP connections to the unix socket. */
function forwarder(socketPath: string): { server: Server; close: () => Promise<void> } {
  const open = new Set<Socket>()
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect(socketPath)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one.on('close', () => {
        open.delete(one)
        other.destroy()
      })
      // A `close` follows each error, and its handler ends the other side.
      one.on('error', () => {})
      one.pipe(other)
    }
  })
  return {
    server,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}
