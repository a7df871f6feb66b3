/**
 * Skills and their archives. Published (SDK resources/beta/skills/versions.ts and
 * tools/agent-toolset/skills.ts): the fields, that a download is a zip archive whose top directory is the
 * skill's name, and that only the retrieve endpoint resolves the alias `latest`.
 */
import type { BetaManagedAgentsCustomSkill } from '@anthropic-ai/sdk/resources/beta/agents/agents'
import type { BetaSkillVersion } from '@anthropic-ai/sdk/resources/beta/skills/versions'
import { zipArchive } from '../zip-archive.ts'
import { newId, stamp } from './stamps-and-ids.ts'
import { notFound } from './wire-errors.ts'

export interface SkillOptions {
  /** Kebab-case. Also the top directory of the archive. */
  name: string
  /** Content by path below the skill, such as `SKILL.md`. */
  files: Readonly<Record<string, string>>
  /** Whether the session names the version itself. Default: it names `latest`. */
  pinned?: boolean
  /** Bytes to serve instead of an archive of `files`, such as one that a worker should refuse. */
  archive?: Buffer
}

interface Skill {
  version: BetaSkillVersion
  archive: Buffer
}

export class Skills {
  readonly #skills = new Map<string, Skill>()

  /** Adds a skill. Returns its entry in the skills of a session's agent. */
  add({ name, files, pinned = false, archive }: SkillOptions): BetaManagedAgentsCustomSkill {
    const tree = Object.entries(files).map(([path, text]) => [`${name}/${path}`, Buffer.from(text)] as const)
    const version: BetaSkillVersion = {
      id: newId('skillver'),
      type: 'skill_version',
      created_at: stamp(),
      description: `The skill ${name}.`,
      name,
      skill_id: newId('skill'),
    }
    this.#skills.set(version.skill_id, { version, archive: archive ?? zipArchive(new Map(tree)) })
    return { type: 'custom', skill_id: version.skill_id, version: pinned ? version.id : 'latest' }
  }

  /** Throws a 404 for an unknown skill or version. */
  retrieve(skillId: string, version: string): BetaSkillVersion {
    const skill = this.#skills.get(skillId)
    if (skill === undefined) throw notFound('skill')
    if (version !== 'latest' && version !== skill.version.id) throw notFound('skill version')
    return skill.version
  }

  /** The zip archive. Throws a 404 also for `latest`. */
  content(skillId: string, version: string): Buffer {
    const skill = this.#skills.get(skillId)
    if (skill === undefined) throw notFound('skill')
    if (version !== skill.version.id) throw notFound('skill version')
    return skill.archive
  }
}
