/** The state of the double: environments with their queues, sessions, skills, memory stores, credentials. */
import type { BetaManagedAgentsMemoryStoreResource } from '@anthropic-ai/sdk/resources/beta/sessions/resources'
import { Keyring } from './credentials.ts'
import { Faults } from './faults.ts'
import { MemoryStore } from './memory-store.ts'
import { playScript, runAgent, type AgentProgram, type Step } from './scripted-agent.ts'
import { Session } from './session.ts'
import { DEFAULT_SETTINGS, settingsSchema, type Settings } from './settings.ts'
import { Skills, type SkillOptions } from './skills.ts'
import { newId } from './stamps-and-ids.ts'
import type { WorkItem } from './work-item.ts'
import { WorkQueue } from './work-queue.ts'
import { notFound } from './wire-errors.ts'

export interface Environment {
  id: string
  key: string
}

export interface MemoryStoreOptions {
  name: string
  /** Contents by path, such as `/notes.md`. */
  memories?: Readonly<Record<string, string>>
  /** Default `read_write`. */
  access?: 'read_write' | 'read_only'
  /** Default: `/mnt/memory/` and the name in lower case, with hyphens for other characters. Null: no path. */
  mountPath?: string | null
}

export interface SessionOptions {
  /** Steps to play, or a program. Without one, the agent answers messages as `chatAgent` says. */
  script?: readonly Step[] | AgentProgram
  /** The first message of the user. Default: "Begin." with a script, none without. */
  prompt?: string
  /** Default: the double's first environment. */
  environmentId?: string
  agentId?: string
  title?: string | null
  metadata?: Record<string, string>
  skills?: readonly SkillOptions[]
  memoryStores?: readonly MemoryStoreOptions[]
  /** Whether to queue a work item, as the service does for every new session. Default true. */
  queued?: boolean
}

/** Record of one request that the double received. */
export interface RequestRecord {
  /** Name of the route, such as `work.poll`. Null if no route matches. */
  route: string | null
  method: string
  path: string
  query: Readonly<Record<string, string | string[]>>
  credential: 'api_key' | 'environment_key' | 'item_secret' | 'none'
  /** The work item whose token the request carried. Null for another credential. */
  itemId: string | null
  /** Null until it is answered, and if the connection was broken instead. */
  status: number | null
  headers: Readonly<Record<string, string>>
}

/** Records beyond this number push the oldest out, so that a long run needs a bounded memory. */
const REQUESTS_MAX = 10_000

export class ControlPlane {
  readonly keyring = new Keyring()
  readonly faults = new Faults()
  readonly skills = new Skills()
  readonly queues = new Map<string, WorkQueue>()
  readonly sessions = new Map<string, Session>()
  readonly stores = new Map<string, MemoryStore>()
  readonly requests: RequestRecord[] = []
  readonly apiKey = this.keyring.issue({ kind: 'api_key' })
  readonly first: Environment
  readonly defaultProgram: AgentProgram
  settings: Settings

  constructor(settings: Partial<Settings>, defaultProgram: AgentProgram) {
    this.settings = settingsSchema.parse({ ...DEFAULT_SETTINGS, ...settings })
    this.defaultProgram = defaultProgram
    this.first = this.createEnvironment()
  }

  get items(): readonly WorkItem[] {
    return [...this.queues.values()].flatMap(({ items }) => items)
  }

  configure(change: Partial<Settings>): void {
    this.settings = settingsSchema.parse({ ...this.settings, ...change })
  }

  createEnvironment(): Environment {
    const id = newId('env')
    this.queues.set(id, new WorkQueue(id))
    return { id, key: this.keyring.issue({ kind: 'environment_key', environmentId: id }) }
  }

  /** Throws a 404. */
  queueOf(environmentId: string): WorkQueue {
    const queue = this.queues.get(environmentId)
    if (queue === undefined) throw notFound('environment')
    return queue
  }

  /** Queues an item for a session, or a healthcheck. */
  enqueue(of: Session | 'healthcheck', environmentId = this.first.id): WorkItem {
    if (of === 'healthcheck') return this.queueOf(environmentId).enqueue({ type: of, id: newId('hc') })
    return this.queueOf(of.profile.environmentId).enqueue({ type: 'session', id: of.id })
  }

  createSession(options: SessionOptions): Session {
    const { script, title = null, metadata = {}, environmentId = this.first.id } = options
    this.queueOf(environmentId)
    let isCreated = false
    const session = new Session({
      environmentId,
      agentId: options.agentId ?? 'agent_01scripted',
      title,
      metadata,
      skills: (options.skills ?? []).map((skill) => this.skills.add(skill)),
      resources: (options.memoryStores ?? []).map((store) => this.#attach(store)),
      // Items are also queued "when long-dormant sessions receive new messages" (BetaSelfHostedWork).
      onMessage: (one) => {
        if (isCreated && !this.queueOf(environmentId).hasLiveItem(one.id)) this.enqueue(one)
      },
    })
    this.sessions.set(session.id, session)
    if (options.queued !== false) this.enqueue(session)
    const prompt = options.prompt ?? (script === undefined ? undefined : 'Begin.')
    const program = typeof script === 'function' ? script : script && readsPrompt(playScript(script))
    if (prompt !== undefined) session.send(prompt)
    isCreated = true
    void runAgent(session, program ?? this.defaultProgram)
    return session
  }

  /** Describes a memory store as a resource of the session to which it is attached. */
  resourceOf(
    store: MemoryStore,
    options: Omit<MemoryStoreOptions, 'name' | 'memories'>,
  ): BetaManagedAgentsMemoryStoreResource {
    // "The name is lowercased and every run of characters other than ASCII letters and digits becomes one
    // hyphen" (MemoryStoreCreateParams).
    const slug = store.name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
    return {
      type: 'memory_store',
      memory_store_id: store.id,
      access: options.access ?? 'read_write',
      description: '',
      instructions: null,
      name: store.name,
      mount_path: options.mountPath === undefined ? `/mnt/memory/${slug}` : options.mountPath,
    }
  }

  createStore(name: string): MemoryStore {
    const store = new MemoryStore(name)
    this.stores.set(store.id, store)
    return store
  }

  note(record: RequestRecord): void {
    this.requests.push(record)
    if (this.requests.length > REQUESTS_MAX) this.requests.shift()
  }

  close(): void {
    for (const session of this.sessions.values()) if (!session.isDeleted) session.delete()
    for (const queue of this.queues.values()) queue.close()
  }

  #attach(options: MemoryStoreOptions): BetaManagedAgentsMemoryStoreResource {
    const store = this.createStore(options.name)
    for (const [path, content] of Object.entries(options.memories ?? {})) store.create({ path, content })
    return this.resourceOf(store, options)
  }
}

/** Takes the first message before the script begins, so that no later step of the script gets it. */
const readsPrompt =
  (program: AgentProgram): AgentProgram =>
  async (agent) => {
    await agent.nextMessage()
    await program(agent)
  }
