/**
 * Baseline of the dispatcher bench: the worker of Anthropic's SDK with its own tools, which run on this host.
 * argv: base URL, environment, work directory. The environment variable ENVIRONMENT_KEY has the key.
 */
import { Anthropic } from '@anthropic-ai/sdk'

const [baseURL = '', environmentId = '', workdir = ''] = process.argv.slice(2)
const environmentKey = process.env['ENVIRONMENT_KEY'] ?? ''
const client = new Anthropic({ baseURL, authToken: environmentKey, apiKey: null, logLevel: 'error' })
const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
process.send?.('ready')
await client.beta.environments.work
  .worker({ environmentId, environmentKey, workdir, maxIdleMs: 1000 })
  .run(stop.signal)
  .catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
  })
process.disconnect?.()
