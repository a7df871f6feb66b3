/** What a program can reach of the host: its files, its network, its secrets. */
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { createSocket, type Socket } from 'node:dgram'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { agentOf } from './host.ts'
import { onTargets, program } from './on-targets.ts'
import { isOfEachKind, bash, python, WORKER_SECRET, type Target } from './target.ts'

const CONTENT = 'canary-81b2c0de'
const ABSTRACT = `cofferdam-attack-${process.pid}`
/** Cloud metadata by address, on every host, and a public name server. */
const OUTSIDE: [string, number][] = [
  ['169.254.169.254', 80],
  ['fd00:ec2::254', 80],
  ['1.1.1.1', 53],
]
const listeners: Server[] = []
const receivers: Socket[] = []
const ports: [string, number][] = []
let heard = 0

/** Listens on every address of this host, including Docker's bridge. */
beforeAll(async () => {
  const addresses = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).filter((a) => !a.scopeid),
  )
  for (const { address, family } of addresses) {
    const server = createServer(() => void heard++)
    await new Promise<void>((resolve) => server.listen(0, address, resolve))
    const bound = server.address()
    if (bound === null || typeof bound === 'string') continue
    listeners.push(server)
    ports.push([address, bound.port])
    const receiver = createSocket(family === 'IPv6' ? 'udp6' : 'udp4').on('message', () => void heard++)
    await new Promise<void>((resolve) => receiver.bind(bound.port, address, resolve))
    receivers.push(receiver)
  }
  const abstract = createServer(() => void heard++)
  await new Promise<void>((resolve) => abstract.listen(`\0${ABSTRACT}`, resolve))
  listeners.push(abstract)
})
afterAll(() => {
  for (const server of listeners) server.close()
  for (const receiver of receivers) receiver.close()
})

/** Creates a file of the worker's user, beside the sandboxes' own folder. */
function placeVictim(target: Target): { victim: string; folder: string } {
  const folder = join(target.runtimeDir, 'victim')
  const victim = join(folder, 'private')
  if (!existsSync(folder)) mkdirSync(folder)
  writeFileSync(victim, CONTENT, { mode: 0o600 })
  const { uid, gid } = statSync(target.runtimeDir)
  for (const path of [folder, victim]) chownSync(path, uid, gid)
  return { victim, folder }
}
const lookOf = (path: string): unknown => {
  const { mode, uid, gid, size, mtimeMs, ctimeMs, nlink, ino } = statSync(path)
  return { mode, uid, gid, size, mtimeMs, ctimeMs, nlink, ino }
}

await onTargets(
  (target) => {
    test("a file of the worker's user cannot be read, changed, moved or replaced", async () => {
      // The first sandbox creates the backend's folders.
      await target.run({ program: bash(':') })
      const { victim, folder } = placeVictim(target)
      // The worker itself writes into these while sandboxes start.
      const changing = ['sandboxes', 'sockets', 'uids']
      const guest = readdirSync(target.runtimeDir)
        .filter((name) => !changing.some((part) => name.includes(part)))
        .map((name) => join(target.runtimeDir, name))
      const watched = [victim, folder, target.runtimeDir, ...guest, '/etc/passwd']
      // Sandboxes of other tests link the worker's Node, which changes its link count and ctime.
      const lookOfNode = () => {
        const { mode, uid, gid, size, mtimeMs, ino } = statSync(process.execPath)
        return { mode, uid, gid, size, mtimeMs, ino }
      }
      const look = () => [...watched.map(lookOf), lookOfNode()]
      const before = look()
      const { stdout } = await target.run({
        program: { ...program('reach_files'), argv: [victim, folder] } as ReturnType<typeof program>,
      })
      const allowed = Object.entries(JSON.parse(stdout) as Record<string, string>).filter(
        ([name, answer]) =>
          answer.startsWith('allowed') &&
          name !== 'watch' &&
          // Masked by the null device.
          `${name} ${answer}` !== "read /proc/kcore allowed b''" &&
          // gVisor shows these to every user. They contain nothing of the worker (see below).
          !(target.kernel === 'gvisor' && /^read .proc.1.(environ|maps)$/.test(name)),
      )
      expect(allowed).toEqual([])
      expect(stdout).not.toContain(CONTENT)
      expect(look()).toEqual(before)
      expect(readFileSync(victim, 'utf8')).toBe(CONTENT)
      expect(readdirSync(folder)).toEqual(['private'])
    })

    test('no address of the host, metadata service, name or abstract socket is reached', async () => {
      heard = 0
      const argv = [JSON.stringify([...ports, ...OUTSIDE]), ABSTRACT]
      const { stdout } = await target.run({
        program: { ...program('reach_network'), argv } as ReturnType<typeof program>,
      })
      expect(JSON.parse(stdout)).toEqual([])
      expect(heard).toBe(0)
      expect(ports.length).toBeGreaterThan(0)
    })

    test("nothing of the worker's environment is in the sandbox, not even in the agent", async () => {
      const half = Math.floor(WORKER_SECRET.length / 2)
      const attack = target.start({
        program: python(`
import os, time
secret = ${JSON.stringify(WORKER_SECRET.slice(0, half))} + ${JSON.stringify(WORKER_SECRET.slice(half))}
seen = [name for name in os.environ if secret in os.environ[name]]
for folder, folders, names in os.walk('/proc'):
    folders[:] = [f for f in folders if f.isdigit() or f in ('self', 'task')] if folder == '/proc' else []
    for name in names:
        try:
            with open(os.path.join(folder, name), 'rb') as file:
                if secret.encode() in file.read(1 << 20): seen.append(folder + '/' + name)
        except (OSError, ValueError): pass
print('seen', seen, sorted(os.environ), flush=True)
time.sleep(60)`),
        env: { MINE: '1' },
      })
      const ref = await attack.began
      await attack.said('seen')
      if (process.getuid?.() === 0)
        expect(readFileSync(`/proc/${agentOf(target, ref)}/environ`, 'utf8')).not.toContain(WORKER_SECRET)
      attack.stop('cancelled')
      const { stdout } = await attack.gone
      expect(stdout).toMatch(/^seen \[\] \[.*'MINE'.*\]\n$/)
      expect(stdout).not.toMatch(/REDIS|WORKER|NODE_CHANNEL/)
    })

    test('no descriptor of worker or agent is inherited', async () => {
      const { stdout } = await target.run({
        program: python(`
import os, stat
for fd in range(3, 4096):
    try: print(fd, stat.filemode(os.fstat(fd).st_mode))
    except OSError: pass`),
      })
      // The descriptor on which the interpreter reports its value.
      expect(stdout.replace(/^199 prw-------\n/, '')).toBe('')
    })

    test('a program sees only its own processes', async () => {
      const { stdout } = await target.run({
        program: bash('echo /proc/[0-9]*; cat /proc/1/cmdline 2>/dev/null | tr "\\0" " "'),
      })
      expect(stdout.split('\n')[0]?.split(' ').length).toBeLessThanOrEqual(4)
      expect(stdout).not.toMatch(/vitest|worker-process|dockerd|systemd/)
    })
  },
  { daily: isOfEachKind },
)
