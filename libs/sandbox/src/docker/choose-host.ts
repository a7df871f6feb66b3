/**
 * Properties that all containers of one backend share, chosen once: the image by its ID (a tag may move to
 * another build), the runtime, and the transport of frames. An automatic choice that does not work is
 * replaced; a configured one is not.
 */
import { CofferdamError, IMAGE_SIZES, imageName, type ImageSize } from '@cofferdam/contract'
import { guestDigest } from '../guest/index.ts'
import type { BackendLogger } from '../deps.ts'
import type { DockerConfig } from './config.ts'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import { runtimeKind } from './runtime-kind.ts'

/** The fix for an image that is missing or of another version. */
export const buildFix = (image?: string): string =>
  `Build it with \`npm run image${image === imageName('full') ? ' -- --full' : ''}\` (infra/images/build.ts).`

/** Image label with the digest of the agent in the image, written by our build script. */
export const AGENT_LABEL = 'cofferdam.guest'

/** Image label that tells which of the two images it is. */
const SIZE_LABEL = 'cofferdam.image'

// crun needs 20 ms less CPU per container than runc.
const PREFERRED_RUNTIME = 'crun'

export interface Chosen {
  imageId: string
  /** Null for the daemon's default. */
  runtime: string | null
  /** Release of the host's kernel if the runtime must have another one; otherwise null. */
  hostKernel: string | null
}

export type Transport = 'socket' | 'attach'

export interface HostChoice {
  /**
   * Asks the daemon once, and again after a failure. Throws `backend_unavailable` if the image is missing.
   */
  chosen(): Promise<Chosen>
  /** Transport of the next container; `isProven` once a container has used it. */
  readonly transport: { use: Transport; isProven: boolean }
  socketWorks(): void
  /** Reports that the attach stream worked after the socket had failed. */
  socketFails(reason: string): void
  /** True if another runtime can be tried, because the settings do not name the failed one. */
  runtimeFails(failed: string | null, reason: string): boolean
  /** The daemon no longer knows the image. */
  imageGone(): void
  /** Digest of the agent that this worker supports. */
  expectedAgent(): string
}

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
      // Several starts may fail at once. Each retries with the new choice.
      if (avoidsPreferred) return true
      avoidsPreferred = true
      deciding = null
      logger.info({ reason, runtime: failed }, 'docker: the runtime does not work; the default is used')
      return true
    },
    imageGone() {
      deciding = null
    },
    // Read once, since the files do not change while a worker runs.
    expectedAgent: () => (digest ??= guestDigest()),
  }
}

/** The part of the daemon's `info` about runtimes and security modules. */
export interface RuntimeInfo {
  Runtimes?: Record<string, unknown>
  /** E.g. `name=apparmor`. */
  SecurityOptions?: string[]
}

export const hasPreferred = ({ Runtimes = {} }: RuntimeInfo): boolean => PREFERRED_RUNTIME in Runtimes

/**
 * AppArmor 4 (Debian 13, Ubuntu 24.04) has an unconfined profile for crun. With `no-new-privileges`, Docker's
 * profile is stacked on it ("crun//&docker-default") and no longer matches itself: programs cannot signal
 * each other, and the agent cannot signal them (seen on Debian 13).
 */
export const hasAppArmor = ({ SecurityOptions = [] }: RuntimeInfo): boolean =>
  SecurityOptions.some((option) => option.includes('name=apparmor'))

/** The runtime for `runtime: null`: crun if the daemon has it and no AppArmor, else the daemon's default. */
export const automaticRuntime = (info: RuntimeInfo): string | null =>
  hasPreferred(info) && !hasAppArmor(info) ? PREFERRED_RUNTIME : null

/** What the daemon knows of the image; null for what the image does not tell. */
export interface ImageFound {
  id: string
  /** Digest of the image's guest agent. */
  agent: string | null
  size: ImageSize | null
}

/** Throws the daemon's errors. */
export async function inspectImage(daemon: Daemon, image: string, signal?: AbortSignal): Promise<ImageFound> {
  const found = await daemon.call('image inspect', () => daemon.docker.getImage(image).inspect(), signal)
  const labels = found.Config?.Labels ?? {}
  const size = IMAGE_SIZES.find((one) => one === labels[SIZE_LABEL]) ?? null
  return { id: found.Id, agent: labels[AGENT_LABEL] ?? null, size }
}

/** True for a refusal that names the runtime: it is registered but does not start. */
export const blamesRuntime = (error: unknown): boolean =>
  statusOf(error) !== null && /OCI runtime|shim|runtime/i.test(daemonMessage(error))
