/**
 * What this machine can contribute to a test run: each part is really tried (a server is started, the daemon is asked,
 * a sandbox is opened), because a program on PATH says little about whether it works here.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startPostgres, startRedis, type RunningServer } from '@cofferdam/embedded'

const run = promisify(execFile)

export interface Part {
  name: string
  ok: boolean
  /** What was found, or what failed. */
  found: string
  /** What to do when it is missing. */
  fix: string
}

type Finding = { ok: boolean; found: string }

const firstLine = (text: string): string => text.trim().split('\n')[0]?.slice(0, 100) ?? ''
const failure = (error: unknown): Finding => ({
  ok: false,
  found: firstLine(error instanceof Error ? error.message : String(error)),
})

/** Runs a command; found is its first line of output. */
async function command(program: string, args: string[]): Promise<Finding> {
  try {
    const { stdout, stderr } = await run(program, args, { timeout: 20_000 })
    return { ok: true, found: firstLine(stdout) || firstLine(stderr) || program }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      return { ok: false, found: `${program} is not on PATH` }
    if (error instanceof Error && 'stderr' in error && String(error.stderr) !== '')
      return { ok: false, found: firstLine(String(error.stderr)) }
    return failure(error)
  }
}

async function server(
  start: (options: { dataDir: string; durable: boolean }) => Promise<RunningServer>,
): Promise<Finding> {
  const dataDir = await mkdtemp(join(tmpdir(), 'cofferdam-part-'))
  try {
    const running = await start({ dataDir: join(dataDir, 'data'), durable: false })
    await running.stop()
    return { ok: true, found: running.how }
  } catch (error) {
    return failure(error)
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** Asks the Docker daemon for its version over the socket; needs no client program. */
function dockerDaemon(socketPath: string): Promise<Finding> {
  if (!existsSync(socketPath)) return Promise.resolve({ ok: false, found: `no socket ${socketPath}` })
  const { promise, resolve } = Promise.withResolvers<Finding>()
  const request = get({ socketPath, path: '/version', timeout: 10_000 }, (response) => {
    let body = ''
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => (body += chunk))
    response.on('end', () => {
      const version = /"Version":"([^"]+)"/.exec(body)?.[1]
      resolve(
        version === undefined
          ? { ok: false, found: `unexpected answer ${firstLine(body)}` }
          : { ok: true, found: `daemon ${version}` },
      )
    })
  })
  request.on('timeout', () => request.destroy(new Error('the daemon does not answer within 10 s')))
  request.on('error', (error) => resolve(failure(error)))
  return promise
}

/** Builds the sandbox image (a no-op when it is there); its output goes to `onLine`. */
async function sandboxImage(root: string, daemon: Finding): Promise<Finding> {
  if (!daemon.ok) return { ok: false, found: 'no daemon to build it with' }
  try {
    const { stdout } = await run(process.execPath, [join(root, 'infra/images/build.ts')], {
      cwd: root,
      timeout: 20 * 60_000,
      maxBuffer: 64 * 1024 * 1024,
    })
    return { ok: true, found: stdout.trim().split('\n').at(-1)?.slice(0, 100) ?? 'built' }
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
    return stderr === ''
      ? failure(error)
      : { ok: false, found: stderr.split('\n').at(-1)?.slice(0, 100) ?? '' }
  }
}

/** Tries every part. Takes seconds, or minutes where the sandbox image must be built first. */
export async function findParts(options: {
  root: string
  dockerSocket: string
  onProgress: (what: string) => void
}): Promise<Part[]> {
  const bwrapArgs = ['--ro-bind', '/', '/', '--unshare-all', '--die-with-parent', '--', '/bin/true']
  const [redis, postgres, daemon, python, bwrap, runsc, ip, kubectl] = await Promise.all([
    server(startRedis),
    server(startPostgres),
    dockerDaemon(options.dockerSocket),
    command('python3', ['--version']),
    command('bwrap', bwrapArgs),
    command('runsc', ['--version']),
    command('ip', ['-V']),
    command('kubectl', ['version', '--client']),
  ])
  if (daemon.ok) options.onProgress('docker answers; building the sandbox image unless it is there …')
  const image = await sandboxImage(options.root, daemon)
  return [
    { name: 'redis', ...redis, fix: 'apt-get install redis-server | brew install valkey' },
    { name: 'postgres', ...postgres, fix: 'apt-get install postgresql | brew install postgresql@18' },
    { name: 'docker', ...daemon, fix: 'install Docker Engine and give this user access to its socket' },
    { name: 'sandbox image', ...image, fix: 'npm run image' },
    {
      name: 'bwrap',
      ...bwrap,
      found: bwrap.ok ? 'opens a namespace' : bwrap.found,
      fix: 'apt-get install bubblewrap; allow unprivileged user namespaces',
    },
    { name: 'runsc', ...runsc, fix: 'apt-get install runsc, then `runsc install` for Docker' },
    { name: 'ip', ...ip, fix: 'apt-get install iproute2 (hosts of the partition test)' },
    {
      name: 'kubectl',
      ...kubectl,
      fix: 'apt-get install kubernetes-client (checks the double of Kubernetes)',
    },
    { name: 'python3', ...python, fix: 'apt-get install python3 (3.10 or newer)' },
  ]
}

/** The parts as a table for people. */
export function partsTable(parts: readonly Part[]): string {
  const width = Math.max(...parts.map((part) => part.name.length))
  const lines = parts.map((part) => {
    const state = part.ok ? 'ok     ' : 'missing'
    return `  ${part.name.padEnd(width)}  ${state}  ${part.found}${part.ok ? '' : `\n  ${' '.repeat(width)}           → ${part.fix}`}`
  })
  return ['Parts of this machine:', ...lines].join('\n')
}
