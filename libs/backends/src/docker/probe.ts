/** Can containers run here? Daemon, image, runtime and limits, with what to do about what is missing. */
import type { Probe } from '@cofferdam/contract'
import type { DockerConfig } from './config.ts'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'

/** What to do about a missing image; our own build script knows every way. */
export const MISSING_IMAGE_FIX = 'Build it with `node infra/images/build.ts`.'

// OverlayFS, cgroups and seccomp come from the kernel; these are what the limits stand on.
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

/** Asks the daemon; never throws but the reason of `signal`. */
export async function probeDocker(daemon: Daemon, config: DockerConfig, signal: AbortSignal): Promise<Probe> {
  const no = (why: string, fix: string): Probe => ({ ok: false, why, fix })
  let info: DaemonInfo
  try {
    info = (await daemon.call('info', () => daemon.docker.info(), signal)) as DaemonInfo
  } catch (error) {
    signal.throwIfAborted()
    return no(
      `No Docker daemon answers${config.host === undefined ? '' : ` at ${config.host}`}: ${daemonMessage(error)}.`,
      'Start one (`systemctl start docker`), set DOCKER_HOST, or let this user use the socket (`usermod -aG docker`).',
    )
  }
  if (info.OSType !== undefined && info.OSType !== 'linux')
    return no(`The daemon runs ${info.OSType} containers.`, 'Switch Docker to Linux containers.')

  const runtime = config.runtime ?? info.DefaultRuntime ?? 'the default'
  if (config.runtime !== null && info.Runtimes !== undefined && !(config.runtime in info.Runtimes))
    return no(
      `The daemon has no runtime "${config.runtime}"; it has ${Object.keys(info.Runtimes).join(', ')}.`,
      config.runtime === 'runsc'
        ? 'Install gVisor and register it: `runsc install`, then `systemctl reload docker`.'
        : 'Register it under "runtimes" in the daemon’s daemon.json and reload the daemon.',
    )

  try {
    await daemon.call('image inspect', () => daemon.docker.getImage(config.image).inspect(), signal)
  } catch (error) {
    signal.throwIfAborted()
    return statusOf(error) === 404
      ? no(`The image ${config.image} is not on this Docker host.`, MISSING_IMAGE_FIX)
      : no(`The image ${config.image} cannot be looked at: ${daemonMessage(error)}.`, 'See the daemon’s log.')
  }

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

  const seccomp = info.SecurityOptions?.some((option) => option.includes('seccomp')) ?? false
  return {
    ok: true,
    features: [
      `Docker ${info.ServerVersion ?? 'unknown'} on ${info.Architecture ?? 'unknown'}, runtime ${runtime}`,
      `cgroup v${info.CgroupVersion ?? '1'} (${info.CgroupDriver ?? 'unknown'}): memory, cpu and pids limits`,
      seccomp ? 'seccomp: our own profile' : 'seccomp: NOT supported by this kernel',
      `image ${config.image}`,
    ],
  }
}
