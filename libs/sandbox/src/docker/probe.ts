/** Checks daemon, image, runtime and limits, and names the fix for what is missing. */
import { imageCommands, imageModules, type Probe } from '@cofferdam/contract'
import {
  buildFix,
  hasAppArmor,
  hasPreferred,
  inspectImage,
  type HostChoice,
  type ImageFound,
} from './choose-host.ts'
import type { DockerConfig } from './config.ts'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import type { PreloadOffer } from './preload-offer.ts'
import type { IsolationProof } from './prove-isolation.ts'
import { runtimeKind } from './runtime-kind.ts'

// Kernel features that the limits need.
interface DaemonInfo {
  ServerVersion?: string
  OSType?: string
  Architecture?: string
  CgroupDriver?: string
  CgroupVersion?: string
  DefaultRuntime?: string
  Runtimes?: Record<string, unknown>
  SecurityOptions?: string[]
  MemoryLimit?: boolean
  PidsLimit?: boolean
  CpuCfsQuota?: boolean
}

/** Throws only the reason of `signal`. */
export async function probeDocker(
  daemon: Daemon,
  config: DockerConfig,
  state: { host: HostChoice; offer: PreloadOffer; proof: IsolationProof },
  signal: AbortSignal,
): Promise<Probe> {
  const no = (why: string, fix: string): Probe => ({ ok: false, why, fix })
  let info: DaemonInfo
  try {
    info = (await daemon.call('info', () => daemon.docker.info(), signal)) as DaemonInfo
  } catch (error) {
    signal.throwIfAborted()
    return no(
      `No Docker daemon answers${config.host === undefined ? '' : ` at ${config.host}`}: ${daemonMessage(error)}.`,
      'Start one (`systemctl start docker`), set DOCKER_HOST, or let this user use the socket ' +
        '(`usermod -aG docker`).',
    )
  }
  if (info.OSType !== undefined && info.OSType !== 'linux')
    return no(`The daemon runs ${info.OSType} containers.`, 'Switch Docker to Linux containers.')

  const refusal = runtimeRefusal(config.runtime, info)
  if (refusal !== null) return no(refusal.why, refusal.fix)

  let image: ImageFound
  try {
    image = await inspectImage(daemon, config.image, signal)
  } catch (error) {
    signal.throwIfAborted()
    return statusOf(error) === 404
      ? no(`The image ${config.image} is not on this Docker host.`, buildFix(config.image))
      : no(`The image ${config.image} cannot be looked at: ${daemonMessage(error)}.`, 'See the daemon’s log.')
  }
  if (image.agent !== null && image.agent !== state.host.expectedAgent())
    return no(
      `The image ${config.image} holds another version of the guest agent than this worker speaks to.`,
      buildFix(config.image),
    )

  const lacks = [
    info.MemoryLimit === false ? 'memory' : '',
    info.PidsLimit === false ? 'pids' : '',
    info.CpuCfsQuota === false ? 'cpu' : '',
  ].filter((name) => name !== '')
  if (lacks.length > 0)
    return no(
      `The kernel’s cgroups do not limit ${lacks.join(', ')} for containers.`,
      'Enable these cgroup controllers (rootless Docker: delegate them to the user’s slice).',
    )

  try {
    await state.proof.prove()
  } catch (error) {
    signal.throwIfAborted()
    return no(
      `The runtime ${config.runtime} starts no container that tells its kernel: ${daemonMessage(error)}.`,
      'Start one by hand (`docker run --rm --runtime …`), and see the daemon’s log.',
    )
  }
  const seccomp = info.SecurityOptions?.some((option) => option.includes('seccomp')) ?? false
  try {
    return {
      ok: true,
      features: [
        await runtimeLine(config, info, state.host),
        ...(state.proof.because === null ? [] : [state.proof.because]),
        `cgroup v${info.CgroupVersion ?? '1'} (${info.CgroupDriver ?? 'unknown'}): memory, cpu and ` +
          'pids limits',
        seccomp ? 'seccomp: our own profile' : 'seccomp: NOT supported by this kernel',
        transportLine(state.host),
        await imageLine(config.image, image, state.host),
        ...contentsLines(image),
        ...state.offer.refusals(),
      ],
    }
  } catch (error) {
    signal.throwIfAborted()
    return no(`The daemon stopped answering: ${daemonMessage(error)}.`, 'See the daemon’s log.')
  }
}

function runtimeRefusal(runtime: string | null, info: DaemonInfo): { why: string; fix: string } | null {
  if (runtime === null || info.Runtimes === undefined || runtime in info.Runtimes) return null
  const major = Number.parseInt(info.ServerVersion ?? '', 10)
  // From Docker 23 on a shim needs no registration; the first start shows whether it is installed.
  if (runtime.startsWith('io.containerd.') && major >= 23) return null
  const has = `The daemon has no runtime "${runtime}"; it has ${Object.keys(info.Runtimes).join(', ')}.`
  switch (runtimeKind(runtime).isolation) {
    case 'gvisor':
      return {
        why: has,
        fix: 'Install gVisor and register it: `runsc install`, then `systemctl reload docker`.',
      }
    case 'microvm':
      return {
        why: has,
        fix:
          'Install Kata Containers on a host with /dev/kvm and register it in daemon.json ("runtimes": ' +
          '{"kata": {"path": "/usr/bin/kata-runtime"}}), or with Docker 23 or newer name ' +
          '"io.containerd.kata.v2".',
      }
    default:
      return {
        why: has,
        fix: 'Register it under "runtimes" in the daemon’s daemon.json and reload the daemon.',
      }
  }
}

async function runtimeLine(config: DockerConfig, info: DaemonInfo, host: HostChoice): Promise<string> {
  const { runtime } = await host.chosen()
  const automatic =
    config.runtime === null && runtime !== null
      ? ', if the first sandbox starts with it; else the default'
      : ''
  const isSkipped = config.runtime === null && runtime === null && hasPreferred(info)
  const skipped = isSkipped
    ? hasAppArmor(info)
      ? ' (crun is registered; beside AppArmor it is used only where the setting `runtime` names it)'
      : ' (crun is registered and does not work)'
    : ''
  const name = runtime ?? info.DefaultRuntime ?? 'the default'
  return `Docker ${info.ServerVersion ?? 'unknown'} on ${info.Architecture ?? 'unknown'}, runtime ${name}${automatic}${skipped}`
}

function transportLine({ transport }: HostChoice): string {
  if (transport.use === 'attach') return 'frames on the attach stream'
  return transport.isProven
    ? 'frames on a unix socket'
    : 'frames on a unix socket, if the first sandbox reaches it; else on the attach stream'
}

async function imageLine(name: string, now: ImageFound, host: HostChoice): Promise<string> {
  const { imageId } = await host.chosen()
  const agent = now.agent === null ? ', which does not say which guest agent it holds' : ''
  return imageId === now.id
    ? `image ${name} (${shortId(imageId)})${agent}`
    : `image ${name} as it was at the start (${shortId(imageId)}); restart the worker to use ` +
        `${shortId(now.id)}`
}

/** What programs find in one of our two images; unknown for others. */
function contentsLines({ size }: ImageFound): string[] {
  if (size === null) return []
  const more =
    size === 'full' ? '' : '; `npm run image -- --full` makes one with git, curl, requests, scipy and more'
  const commands = ['bash', 'node', 'npm', 'python3', 'pip', ...imageCommands(size)].join(' ')
  return [`in the ${size} image: ${commands}; Python's ${imageModules(size).join(', ')}${more}`]
}

const shortId = (id: string): string => id.replace(/^sha256:/, '').slice(0, 12)
