/**
 * Proves the isolation of a runtime that claims to start virtual machines. Anybody can register runc as
 * `kata`, so the name proves nothing. Instead the kernel in a container of this runtime is compared with the
 * kernel in one of runc, and this host is searched for hardware virtualisation.
 *
 *   kernel inside = the host's, or unknown             container
 *   another kernel, no hardware virtualisation seen    microvm-emulated
 *   another kernel, hardware virtualisation here       microvm
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Duplex, Readable } from 'node:stream'
import type { Isolation } from '@cofferdam/contract'
import { findHardwareVirtualisation, type HardwareVirtualisation } from '../hardware-virtualisation.ts'
import { openAttachStream, type AttachStream } from './attach-stream.ts'
import type { Daemon } from './daemon.ts'
import { runtimeKind } from './runtime-kind.ts'

/** A kernel's release and its boot ID, which no two boots share. Empty if the kernel does not report it. */
interface KernelSeen {
  release: string
  bootId: string
}

interface Evidence {
  /** In a container of the runtime in question. */
  inside: KernelSeen
  /** In a container of a runtime that shares the host's kernel. */
  outside: KernelSeen
  /** The worker's own. If it is another boot than `outside`, the daemon is on another host. */
  own: KernelSeen
  hardware: HardwareVirtualisation
}

interface Proven {
  isolation: Isolation
  /** One line for the probe. */
  because: string
}

/** Judges the evidence. An unknown value counts against the runtime. */
export function judge({ inside, outside, own, hardware }: Evidence): Proven {
  const isShared = inside.release === outside.release || inside.bootId === outside.bootId
  const isTold = [inside, outside].every(({ release, bootId }) => release !== '' && bootId !== '')
  if (!isTold)
    return { isolation: 'container', because: 'the kernel inside does not tell its boot: nothing is proven' }
  if (isShared)
    return { isolation: 'container', because: `programs run on the host’s kernel (${outside.release})` }
  const kernel = `a kernel of its own (${inside.release}, the host has ${outside.release})`
  if (outside.bootId !== own.bootId)
    return {
      isolation: 'microvm-emulated',
      because: `${kernel}; the daemon is on another host, whose processor this worker cannot see`,
    }
  if (!hardware.hardware)
    return { isolation: 'microvm-emulated', because: `${kernel}, but no hardware: ${hardware.why}` }
  return { isolation: 'microvm', because: `${kernel}, on hardware virtualisation` }
}

export interface IsolationProof {
  /** The isolation that is proven. Before the proof, the weakest that it can be. */
  readonly isolation: Isolation
  /** One line about the proof. Null before it, and for a runtime that has nothing to prove. */
  readonly because: string | null
  /** Proves once, and again after a failure. Throws the daemon's errors. */
  prove(): Promise<void>
  /** Drops the proof. Call it when a later container ran on the host's kernel. */
  forget(): void
}

/** The proof of one backend. A runtime that claims no machine of its own has nothing to prove. */
export function createIsolationProof(
  daemon: Daemon,
  runtime: string | null,
  imageId: () => Promise<string>,
): IsolationProof {
  const { isolation, isMachine } = runtimeKind(runtime)
  let proven: Proven | null = null
  let proving: Promise<void> | null = null

  async function look(claimed: string): Promise<void> {
    const image = await imageId()
    const info = (await daemon.call('info', () => daemon.docker.info())) as { Runtimes?: object }
    proven =
      info.Runtimes !== undefined && PLAIN in info.Runtimes
        ? await compare(daemon, image, claimed)
        : { isolation: 'container', because: `the daemon has no runtime ${PLAIN} to compare with` }
  }

  return {
    get isolation() {
      return isMachine ? (proven?.isolation ?? 'container') : isolation
    },
    get because() {
      return proven === null ? null : `isolation ${proven.isolation}: ${proven.because}`
    },
    prove() {
      if (!isMachine || runtime === null) return Promise.resolve()
      proving ??= look(runtime)
      const mine = proving
      mine.catch(() => {
        if (proving === mine) proving = null
      })
      return mine
    },
    forget() {
      proven = proving = null
    },
  }
}

// Docker's default runtime, whose containers share the host's kernel.
const PLAIN = 'runc'

/** Starts a container of `runtime` and a plain one, and judges. */
async function compare(daemon: Daemon, image: string, runtime: string): Promise<Proven> {
  const [inside, outside, release, bootId, hardware] = await Promise.all([
    kernelIn(daemon, image, runtime),
    kernelIn(daemon, image, PLAIN),
    readFile('/proc/sys/kernel/osrelease', 'utf8').catch(() => ''),
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    findHardwareVirtualisation(),
  ])
  return judge({ inside, outside, own: { release: release.trim(), bootId: bootId.trim() }, hardware })
}

// Prints one line per file, empty if the kernel has no such file (gVisor has no boot_id).
const ASK = 'for f in osrelease random/boot_id; do cat /proc/sys/kernel/$f 2>/dev/null || echo; done'

// Limit for the output of ASK, both lines together.
const MOST_BYTES = 400

/** What a container of this runtime says of its kernel. */
async function kernelIn(daemon: Daemon, image: string, runtime: string): Promise<KernelSeen> {
  const container = await daemon.call('create', (abortSignal) =>
    daemon.docker.createContainer({
      name: `cofferdam-kernel-${randomBytes(8).toString('hex')}`,
      Image: image,
      Entrypoint: ['/bin/sh', '-c', ASK],
      Cmd: [],
      User: '65534:65534',
      NetworkDisabled: true,
      AttachStdout: true,
      HostConfig: {
        NetworkMode: 'none',
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges'],
        Memory: 64 * 1_048_576,
        PidsLimit: 64,
        LogConfig: { Type: 'none', Config: {} },
        Runtime: runtime,
      },
      abortSignal,
    }),
  )
  let stream: AttachStream | undefined
  try {
    const stdio = await daemon.call('attach', (abortSignal) =>
      container.attach({ stream: true, stdout: true, stderr: true, hijack: true, abortSignal }),
    )
    const attached = (stream = openAttachStream(stdio as Duplex))
    await daemon.call('start', (abortSignal) => container.start({ abortSignal }))
    const [release = '', bootId = ''] = (await daemon.call('kernel', () => head(attached.readable))).split(
      '\n',
    )
    return { release: release.trim(), bootId: bootId.trim() }
  } finally {
    stream?.destroy()
    await daemon.call('remove', (abortSignal) => container.remove({ force: true, abortSignal }))
  }
}

async function head(readable: Readable): Promise<string> {
  let said = ''
  for await (const chunk of readable) {
    said += String(chunk)
    if (said.length > MOST_BYTES) break
  }
  return said.slice(0, MOST_BYTES)
}
