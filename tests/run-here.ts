/**
 * A fleet's worker, API and dispatcher in the process of the test, with one telemetry, as `cofferdam up`
 * runs them. A worker here costs 0.8 CPU seconds less than one in a process of its own. But it cannot be
 * killed, it has no log and no environment of its own, and a test that blocks the process blocks the worker.
 */
import { loadConfig as loadApiConfig, runApi, type RunningApi } from '@cofferdam/api'
import {
  loadConfig as loadDispatcherConfig,
  runDispatcher,
  type RunningDispatcher,
} from '@cofferdam/dispatcher'
import { compileRules, redactText } from '@cofferdam/executor'
import { startTelemetry, type Telemetry } from '@cofferdam/telemetry'
import { loadConfig as loadWorkerConfig, runWorker, type RunningWorker } from '@cofferdam/worker'

export type Environment = Readonly<Record<string, string>>

export interface RunsHere extends AsyncDisposable {
  runWorker(env: Environment): Promise<RunningWorker>
  /** Drains all of them. */
  closeWorkers(): Promise<void>
  runApi(env: Environment): Promise<RunningApi>
  runDispatcher(env: Environment): Promise<RunningDispatcher>
}

/** `stores`: the environment that every process of the fleet has. Disposing closes what still runs. */
export function createRunsHere(stores: Environment): RunsHere {
  const owned = new AsyncDisposableStack()
  const workers: RunningWorker[] = []
  const closeWorkers = async (): Promise<void> => {
    await Promise.all(workers.splice(0).map((worker) => worker.close()))
  }
  let telemetry: Telemetry | undefined
  return {
    async runWorker(env) {
      const config = loadWorkerConfig({ ...stores, COFFERDAM_LOG_LEVEL: 'warn', ...env })
      if (telemetry === undefined) {
        const rules = compileRules([], {})
        const redact = (text: string): string => redactText(rules, text).text
        telemetry = owned.use(await startTelemetry({ service: 'test', version: '0', redact }))
        owned.defer(closeWorkers)
      }
      const worker = await runWorker(config, { telemetry })
      workers.push(worker)
      return worker
    },
    closeWorkers,
    async runApi(env) {
      const config = loadApiConfig({ ...stores, COFFERDAM_LOG_LEVEL: 'error', COFFERDAM_PORT: '0', ...env })
      // An API that shares a telemetry leaves it to the worker to keep the traces.
      const api = await runApi(config, telemetry === undefined ? {} : { telemetry })
      owned.defer(() => api.close())
      return api
    },
    async runDispatcher(env) {
      const config = loadDispatcherConfig({ ...stores, COFFERDAM_LOG_LEVEL: 'silent', ...env })
      const dispatcher = await runDispatcher(config, telemetry === undefined ? {} : { telemetry })
      owned.defer(() => dispatcher.close())
      return dispatcher
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
