/** Proxies a cluster's API server on loopback with kubectl, which handles users and certificates. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export interface KubectlProxy extends AsyncDisposable {
  readonly origin: string
}

/** Starts it on a free port. */
export async function startKubectlProxy(kubeconfig: string): Promise<KubectlProxy> {
  const argv = ['--kubeconfig', kubeconfig, 'proxy', '--port', '0']
  const child = spawn('kubectl', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const { value } = (await lines.next()) as { value?: string }
  const [, address] = /^Starting to serve on (\S+)$/.exec(value ?? '') ?? []
  if (address === undefined) {
    child.kill()
    throw new Error(`kubectl proxy said: ${value}`)
  }
  return {
    origin: `http://${address}`,
    async [Symbol.asyncDispose]() {
      child.kill()
      await exited
    },
  }
}
