/** Connects to the API server by a kubeconfig (with Kubernetes' client) or a service account's files. */
import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { CofferdamError } from '@cofferdam/contract'
import type { KubeConfig } from '@kubernetes/client-node'
import type { KubernetesConfig } from './config.ts'

export interface Connection {
  server: string
  /** Certificates, credentials and proxy of one request. */
  options: RequestOptions
  /** Called when the server refused these credentials: the next connection reads them again. */
  renew: () => void
}

/** Throws `backend_unavailable` if the credentials cannot be read. */
export type Connect = () => Promise<Connection>

/** Creates the function that gets a connection before every request. */
export const createConnect = (config: KubernetesConfig): Connect =>
  config.kubeconfig === null
    ? () => fromFiles(config)
    : fromKubeconfig(config.kubeconfig, config.kubeconfig_context)

/** Kubernetes rotates a service account's token, so the files are read every time. */
async function fromFiles({ api_server: server, token_file, ca_file }: KubernetesConfig): Promise<Connection> {
  const [token, ca] = await Promise.all([
    token_file === null ? null : secretIn(token_file),
    ca_file === null || !server.startsWith('https:') ? null : secretIn(ca_file),
  ])
  const headers = token === null ? {} : { Authorization: `Bearer ${token.trim()}` }
  return { server, options: { headers, ...(ca === null ? {} : { ca }) }, renew: () => undefined }
}

function fromKubeconfig(file: string, context: string | null): Connect {
  let current: Promise<KubeConfig> | null = null
  return async () => {
    current ??= load(file, context)
    const used = current
    const renew = (): void => {
      if (current === used) current = null
    }
    try {
      const kubeconfig = await used
      const cluster = kubeconfig.getCurrentCluster()
      if (cluster === null) throw new Error('the context names no cluster of the file')
      const options: RequestOptions = {}
      await kubeconfig.applyToHTTPSOptions(options)
      // Without a proxy, Node's own agent keeps connections alive and notices renewed certificates.
      if (!cluster.proxyUrl) delete options.agent
      return { server: cluster.server, options, renew }
    } catch (error) {
      renew()
      // The cause may quote the file or a plugin's output, so it stays out of the message.
      const which = context === null ? 'its current context' : `its context "${context}"`
      const message = `Kubernetes: ${file} gives no credentials. Check ${which} with kubectl.`
      throw new CofferdamError('backend_unavailable', message, { cause: error })
    }
  }
}

/** The client needs 2 s of CPU and 85 MiB once (docs/decisions/0018), so only a kubeconfig loads it. */
async function load(file: string, context: string | null): Promise<KubeConfig> {
  const { KubeConfig } = await import('@kubernetes/client-node')
  const loaded = new KubeConfig()
  loaded.loadFromFile(file)
  if (context !== null) loaded.setCurrentContext(context)
  return loaded
}

async function secretIn(file: string): Promise<string> {
  return await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `Kubernetes: ${file} cannot be read.`, { cause: error })
  })
}
