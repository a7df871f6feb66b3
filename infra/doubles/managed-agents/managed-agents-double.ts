/** Starts the double, and defines its interface for tests in the same process. */
import { listen } from '@cofferdam/backend-remote/double'
import { HELP, parseLine } from './chat-commands.ts'
import { ControlPlane, type Environment, type RequestRecord, type SessionOptions } from './control-plane.ts'
import { type Fault, type FaultInput, faultSchema } from './faults.ts'
import { RESOURCE_ROUTES } from './resource-routes.ts'
import { createRouter, type Answer, type Call, type Route } from './router.ts'
import type { AgentProgram } from './scripted-agent.ts'
import { SESSION_ROUTES } from './session-routes.ts'
import type { Session } from './session.ts'
import { type Settings, settingsSchema } from './settings.ts'
import type { MemoryStore } from './memory-store.ts'
import { badRequest, checked } from './wire-errors.ts'
import type { WorkItem } from './work-item.ts'
import { WORK_ROUTES } from './work-routes.ts'

export interface ManagedAgentsOptions extends Partial<Settings> {
  /** Loopback port. Default 0, any free one. */
  port?: number
}

export interface ManagedAgentsDouble extends AsyncDisposable {
  /** Value for `baseURL` and `ANTHROPIC_BASE_URL`. */
  readonly url: string
  readonly apiKey: string
  /** The first environment. */
  readonly environmentId: string
  readonly environmentKey: string
  /** Another environment with a key of its own. */
  createEnvironment(): Environment
  /** Creates a session, queues its work item, and starts its agent. */
  createSession(options?: SessionOptions): Session
  /** Throws for an unknown ID. */
  session(id: string): Session
  /** Throws for an unknown ID. */
  memoryStore(id: string): MemoryStore
  /** Every work item with its states over time, in the order of creation per environment. */
  readonly items: readonly WorkItem[]
  /** Queues another item for a session, or a healthcheck. */
  enqueue(of: Session | 'healthcheck', environmentId?: string): WorkItem
  /** Makes the tokens of an item invalid. */
  revokeSecrets(item: WorkItem): void
  /** The last 10 000 requests. */
  readonly requests: readonly RequestRecord[]
  /** Names of the routes that a fault can name. */
  readonly routes: readonly string[]
  /** Adds a failure. Throws if the fault is not valid. */
  inject(fault: FaultInput): void
  /** Failures that have not happened as often as asked. */
  readonly faultsLeft: readonly Fault[]
  /** Forgets all faults, and ends delays that are under way. */
  clearFaults(): void
  /** Changes settings from now on. */
  configure(change: Partial<Settings>): void
  /** Ends every stream and the server. */
  close(): Promise<void>
}

/** Starts the control plane on a loopback port. */
export async function startManagedAgents(options: ManagedAgentsOptions = {}): Promise<ManagedAgentsDouble> {
  const { port = 0, ...settings } = options
  const plane = new ControlPlane(settings, chatAgent)
  const api = [...WORK_ROUTES, ...SESSION_ROUTES, ...RESOURCE_ROUTES]
  const routes = api.map(({ name }) => name)
  const answer = createRouter(plane, [...api, ...doubleRoutes(routes)])
  const server = await listen(port, (request, response) => void answer(request, response))
  const known = <T>(found: T | undefined, what: string): T => {
    if (found === undefined) throw new Error(`this double has no such ${what}`)
    return found
  }
  const close = async (): Promise<void> => {
    plane.close()
    await server[Symbol.asyncDispose]()
  }
  return {
    url: `http://127.0.0.1:${server.port}`,
    apiKey: plane.apiKey,
    environmentId: plane.first.id,
    environmentKey: plane.first.key,
    createEnvironment: () => plane.createEnvironment(),
    createSession: (of = {}) => plane.createSession(of),
    session: (id) => known(plane.sessions.get(id), 'session'),
    memoryStore: (id) => known(plane.stores.get(id), 'memory store'),
    get items() {
      return plane.items
    },
    enqueue: (of, environmentId) => plane.enqueue(of, environmentId),
    revokeSecrets: ({ id }) => plane.keyring.revokeItem(id),
    requests: plane.requests,
    routes,
    inject: (fault) => plane.faults.add(fault, routes),
    get faultsLeft() {
      return plane.faults.left
    },
    clearFaults: () => plane.faults.clear(),
    configure: (change) => plane.configure(change),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The agent of sessions without a script: it turns each message into a tool use, or answers with help. */
const chatAgent: AgentProgram = async (agent) => {
  for (;;) {
    const line = parseLine(await agent.nextMessage())
    if ('tool' in line) {
      const [call] = await agent.useTools(line.tool)
      const isGood = call?.result?.isError === false
      agent.say(isGood ? 'The tool has answered.' : 'The tool has answered with an error.')
    } else agent.say('wrong' in line ? line.wrong : HELP)
    agent.endTurn()
  }
}

/**
 * The double's own endpoints, which Anthropic's API does not have. They inject faults and change settings,
 * and they take the API key. `routeNames` are the routes that a fault may name.
 */
const doubleRoutes = (routeNames: readonly string[]): readonly Route[] => [
  {
    name: 'double.inject',
    method: 'POST',
    path: '/_double/inject',
    takes: ['api_key'],
    answer({ plane, body }: Call): Answer {
      const fault = checked(faultSchema, body)
      if ('route' in fault && !routeNames.includes(fault.route))
        throw badRequest(`route: expected one of ${routeNames.join(', ')}`)
      plane.faults.add(fault, routeNames)
      return { json: { left: plane.faults.left } }
    },
  },
  {
    name: 'double.configure',
    method: 'POST',
    path: '/_double/settings',
    takes: ['api_key'],
    answer({ plane, body }: Call): Answer {
      const change = Object.entries(checked(settingsSchema.partial(), body)).filter(
        ([, value]) => value !== undefined,
      )
      plane.configure(Object.fromEntries(change))
      return { json: plane.settings }
    },
  },
]
