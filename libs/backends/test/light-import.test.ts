/** Cloud SDKs are slow and large, so only the backend that uses one loads it, at first use. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const INDEX = fileURLToPath(new URL('../src/index.ts', import.meta.url))
const SDK = /^(@aws-sdk|@azure|@kubernetes|e2b|@e2b)(\/|$)/

/** Cloud packages that a process loads when it creates these backends and probes the last one. */
async function loadedBy(config: object): Promise<string[]> {
  const code = `
    import { registerHooks } from 'node:module'
    const seen = new Set()
    registerHooks({ resolve: (specifier, context, next) => (seen.add(specifier), next(specifier, context)) })
    const { createBackends } = await import(process.argv[1])
    const backends = [...(await createBackends(JSON.parse(process.argv[2]))).values()]
    await backends.at(-1).probe(AbortSignal.timeout(20_000)).catch(() => undefined)
    for (const backend of backends) await backend[Symbol.asyncDispose]()
    console.log(JSON.stringify([...seen]))`
  const argv = ['--input-type=module', '-e', code, INDEX, JSON.stringify(config)]
  const { stdout } = await promisify(execFile)(process.execPath, argv)
  return (JSON.parse(stdout) as string[]).filter((specifier) => SDK.test(specifier))
}

it('a worker that runs containers loads no SDK although other backends are configured', async () => {
  expect(await loadedBy({ agentcore: {}, azure: {}, kubernetes: {}, docker: {} })).toEqual([])
})

it('a worker in a pod loads no SDK for its pod’s service account', async () => {
  expect(await loadedBy({ kubernetes: {} })).toEqual([])
})

it('the Kubernetes backend loads its SDK at the first call with a kubeconfig', async () => {
  expect(await loadedBy({ kubernetes: { kubeconfig: '/nowhere/config' } })).toContain(
    '@kubernetes/client-node',
  )
})

it('the AgentCore backend loads its SDK at the first call', async () => {
  const agentcore = {
    region: 'eu-central-1',
    endpoint: 'http://127.0.0.1:1',
    interpreters: { 'internal-only': 'none' },
  }
  expect(await loadedBy({ agentcore })).toContain('@aws-sdk/client-bedrock-agentcore')
})
