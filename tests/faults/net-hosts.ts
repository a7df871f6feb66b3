/**
 * Hosts of a fleet as network namespaces of this machine: each has its own loopback and one cable to a bridge, on which
 * the stores' unix sockets are offered over TCP. A cable can be cut: packets are then lost in silence, as in a partition.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'

export interface NetHost {
  /** Put before a command, it runs on this host. */
  within: readonly string[]
  /** Whether that process runs on it. */
  holds(pid: number): boolean
  cut(): void
  heal(): void
}

export interface NetHosts extends AsyncDisposable {
  hosts: readonly NetHost[]
  /** Offers a unix socket to the hosts; resolves with `address:port`. */
  offer(socketPath: string): Promise<string>
}

const ip = (...words: string[]): string =>
  execFileSync('ip', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** Of runs that were killed: a bridge of theirs would take the packets of a network that got the same number. */
function removeLeft(): void {
  for (const [, id = ''] of ip('-br', 'link', 'show', 'type', 'bridge').matchAll(/^cfb([0-9a-z]+) /gm)) {
    const pid = Number.parseInt(id, 36)
    // One of this very number is of another process that had it: here there is none yet.
    if (pid !== process.pid && existsSync(`/proc/${pid}`)) continue
    for (const [name] of ip('netns', 'list').matchAll(new RegExp(`^cfd-${id}-\\d+`, 'gm')))
      ip('netns', 'del', name)
    ip('link', 'del', `cfb${id}`)
  }
}

/** Makes `count` hosts. Interface names have 15 characters at most, so they are made of the process id. */
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
    // The cable goes with its namespace, but only when the kernel gets to it: the next run may want the name at once.
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

/** TCP in, the unix socket out. */
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
      // The other side hears of it by its own close.
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
