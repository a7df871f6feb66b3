/**
 * What all containers of one backend have in common, decided once and from then on the same: the image by its
 * id (a tag may move to another build meanwhile), the runtime, and how frames travel. What was chosen by
 * itself is given up when it turns out not to work; what the settings name is not.
 */
import { CofferdamError, IMAGE_SIZES, imageName, type ImageSize } from '@cofferdam/contract'
import { guestDigest } from '../guest/index.ts'
import type { BackendLogger } from '../deps.ts'
import type { DockerConfig } from './config.ts'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import { runtimeKind } from './runtime-kind.ts'

/** What to do about an image that is missing or of another version; our own build script knows every way. */
export const buildFix = (image?: string): string =>
  `Build it with \`npm run image${image === imageName('full') ? ' -- --full' : ''}\` (infra/images/build.ts).`

/** Label under which our build script writes the digest of the agent that it put into the image. */
export const AGENT_LABEL = 'cofferdam.guest'

/** Label under which it writes which of the two images it is. */
const SIZE_LABEL = 'cofferdam.image'

// crun needs 20 CPU-ms less per container than runc.
const PREFERRED_RUNTIME = 'crun'

export interface Chosen {
  imageId: string
  /** Null for the daemon's default. */
  runtime: string | null
  /** Release of the host's kernel, where the runtime is to have another one; null where nobody asks. */
  hostKernel: string | null
}

export type Transport = 'socket' | 'attach'

export interface HostChoice {
  /**
   * Asks the daemon once; again after a failure. Throws `backend_unavailable` when the image is not there.
   */
  chosen(): Promise<Chosen>
  /** How the next container is connected; `isProven` once one has been. */
  readonly transport: { use: Transport; isProven: boolean }
  socketWorks(): void
  /** The attach stream worked where the socket had not. */
  socketFails(reason: string): void
  /** True when there is another runtime to try: the one that failed was not named by the settings. */
  runtimeFails(failed: string | null, reason: string): boolean
  /** The daemon no longer knows the image. */
  imageGone(): void
  /** Digest of the agent that this worker speaks to. */
  expectedAgent(): string
}

/** Creates the choice of one backend; talks to no daemon yet. */
export function createHostChoice(daemon: Daemon, config: DockerConfig, logger: BackendLogger): HostChoice {
  let deciding: Promise<Chosen> | null = null
  let avoidsPreferred = false
  let digest: string | undefined
  const mayUseSocket = config.transport !== 'attach' && runtimeKind(config.runtime).reachesHostSockets
  let transport = { use: mayUseSocket ? ('socket' as Transport) : 'attach', isProven: !mayUseSocket }

  async function decide(): Promise<Chosen> {
    const [imageId, runtime, hostKernel] = await Promise.all([imageIdOf(), runtimeOf(), hostKernelOf()])
    return { imageId, runtime, hostKernel }
  }

  async function imageIdOf(): Promise<string> {
    try {
      return (await inspectImage(daemon, config.image)).id
    } catch (error) {
      if (statusOf(error) !== 404) throw error
      throw new CofferdamError(
        'backend_unavailable',
        `The image ${config.image} is not on this Docker host. ${buildFix(config.image)}`,
        { cause: error },
      )
    }
  }

  async function runtimeOf(): Promise<string | null> {
    if (config.runtime !== null || avoidsPreferred) return config.runtime
    return automaticRuntime((await daemon.call('info', () => daemon.docker.info())) as RuntimeInfo)
  }

  async function hostKernelOf(): Promise<string | null> {
    if (!runtimeKind(config.runtime).hasOwnKernel) return null
    const info = (await daemon.call('info', () => daemon.docker.info())) as { KernelVersion?: string }
    return info.KernelVersion ?? null
  }

  return {
    chosen() {
      deciding ??= decide()
      const mine = deciding
      mine.catch(() => {
        if (deciding === mine) deciding = null
      })
      return mine
    },
    get transport() {
      return transport
    },
    socketWorks() {
      transport = { use: 'socket', isProven: true }
    },
    socketFails(reason) {
      if (transport.isProven || config.transport === 'socket') return
      transport = { use: 'attach', isProven: true }
      logger.info(
        { reason },
        'docker: no unix socket reaches into containers here; the attach stream is used',
      )
    },
    runtimeFails(failed, reason) {
      if (config.runtime !== null || failed !== PREFERRED_RUNTIME) return false
      // Several starts may fail at once; each tries again with the new choice.
      if (avoidsPreferred) return true
      avoidsPreferred = true
      deciding = null
      logger.info({ reason, runtime: failed }, 'docker: the runtime does not work; the default is used')
      return true
    },
    imageGone() {
      deciding = null
    },
    // Read once: the files do not change while a worker runs.
    expectedAgent: () => (digest ??= guestDigest()),
  }
}

/** What the daemon's `info` says of its runtimes and of what guards them. */
export interface RuntimeInfo {
  Runtimes?: Record<string, unknown>
  /** E.g. `name=apparmor`. */
  SecurityOptions?: string[]
}

export const hasPreferred = ({ Runtimes = {} }: RuntimeInfo): boolean => PREFERRED_RUNTIME in Runtimes

/**
 * AppArmor 4 (Debian 13, Ubuntu 24.04) brings an unconfined profile for crun. Under `no-new-privileges`
 * Docker's own is put upon that one ("crun//&docker-default"), which it does not know as its own: no program
 * may signal another, nor the agent any (seen on Debian 13).
 */
export const hasAppArmor = ({ SecurityOptions = [] }: RuntimeInfo): boolean =>
  SecurityOptions.some((option) => option.includes('name=apparmor'))

/**
 * The runtime for `runtime: null`: crun where the daemon has it and no AppArmor, else the daemon's own
 * default.
 */
export const automaticRuntime = (info: RuntimeInfo): string | null =>
  hasPreferred(info) && !hasAppArmor(info) ? PREFERRED_RUNTIME : null

/** What the daemon knows of the image; null for what the image does not say. */
export interface ImageFound {
  id: string
  /** Digest of the guest agent in it. */
  agent: string | null
  size: ImageSize | null
}

/** Looks the image up. Throws what the daemon says. */
export async function inspectImage(daemon: Daemon, image: string, signal?: AbortSignal): Promise<ImageFound> {
  const found = await daemon.call('image inspect', () => daemon.docker.getImage(image).inspect(), signal)
  const labels = found.Config?.Labels ?? {}
  const size = IMAGE_SIZES.find((one) => one === labels[SIZE_LABEL]) ?? null
  return { id: found.Id, agent: labels[AGENT_LABEL] ?? null, size }
}

/** True for a daemon's refusal that names the runtime: it is registered and cannot be started. */
export const blamesRuntime = (error: unknown): boolean =>
  statusOf(error) !== null && /OCI runtime|shim|runtime/i.test(daemonMessage(error))
