/** The daemon's API through dockerode, with a time limit for every call and our own errors. */
import type Docker from 'dockerode'
import { CofferdamError } from '@cofferdam/contract'
import type { DockerConfig } from './config.ts'

export interface Daemon {
  readonly docker: Docker
  /**
   * One API call. Ends after the configured timeout or with the reason of `stop`; `what` names the call in
   * errors. Pass `stop` only if a call that is cut off leaves nothing behind in the daemon.
   */
  call<T>(what: string, work: (signal: AbortSignal) => Promise<T>, stop?: AbortSignal): Promise<T>
}

/** Loads dockerode and sets the daemon's address, without a request. */
export async function connectDaemon(config: Pick<DockerConfig, 'host' | 'api_timeout_ms'>): Promise<Daemon> {
  const { default: Dockerode } = await import('dockerode')
  // Without a configured host, docker-modem uses DOCKER_HOST or Docker Desktop's socket, like the docker
  // command.
  const docker = new Dockerode(config.host === undefined ? {} : addressOf(config.host))
  return {
    docker,
    async call(what, work, stop) {
      stop?.throwIfAborted()
      // A controller per call: a hijacked connection's signal must not fire after the call has answered.
      const limit = new AbortController()
      const ended = Promise.withResolvers<never>()
      const end = (reason: unknown): void => {
        limit.abort(reason)
        ended.reject(reason)
      }
      const timer = setTimeout(() => {
        end(new Error(`the Docker daemon did not answer "${what}" within ${config.api_timeout_ms} ms`))
      }, config.api_timeout_ms)
      const onStop = (): void => end(stop?.reason)
      stop?.addEventListener('abort', onStop, { once: true })
      try {
        // A race, because not every call of dockerode supports a signal.
        return await Promise.race([work(limit.signal), ended.promise])
      } finally {
        clearTimeout(timer)
        stop?.removeEventListener('abort', onStop)
      }
    },
  }
}

/** HTTP status of a daemon's refusal; null for any other failure. */
export function statusOf(error: unknown): number | null {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return null
  return typeof error.statusCode === 'number' ? error.statusCode : null
}

/** The daemon's own message, without dockerode's prefix. */
export function daemonMessage(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text
    .replace(/^\(HTTP code \d+\) [^-]*- /, '')
    .trim()
    .slice(0, 500)
}

function addressOf(host: string): Docker.DockerOptions {
  const path = host.startsWith('unix://') ? host.slice('unix://'.length) : host
  if (path.startsWith('/')) return { socketPath: path, host: '' }
  let url: URL
  try {
    url = new URL(host)
  } catch (cause) {
    throw new CofferdamError('config_invalid', `docker: host "${host}" is neither a socket path nor a URL.`, {
      cause,
    })
  }
  const protocol = url.protocol === 'https:' ? 'https' : 'http'
  return { host: url.hostname, port: url.port === '' ? 2375 : Number(url.port), protocol }
}
