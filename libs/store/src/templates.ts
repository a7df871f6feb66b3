/** Templates of a tenant: which agents may use sandboxes, in which environment, under which rules. */
import { CofferdamError, parse, templateSchema, type Template } from '@cofferdam/contract'
import type { Kysely, Selectable } from 'kysely'
import { authorName, nameActor, type Author } from './author.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database, TemplatesTable } from './tables.ts'

/** Every method throws `store_unavailable`. */
export interface Templates {
  get(tenantId: string, templateId: string): Promise<Template | null>
  /** Creates or replaces it. Throws `not_found` (tenant) or `invalid_request` (environment). */
  put(template: Template, actor: Author): Promise<Template>
  /** By id, at most 1,000. */
  list(tenantId: string): Promise<Template[]>
}

const MAX_LIST = 1000

export function createTemplates(db: Kysely<Database>): Templates {
  return {
    get: (tenantId, templateId) =>
      translating('a template', async () => {
        const row = await db
          .selectFrom('templates')
          .selectAll()
          .where('tenant_id', '=', tenantId)
          .where('template_id', '=', templateId)
          .executeTakeFirst()
        return row === undefined ? null : toTemplate(row)
      }),
    put: async (input, actor) => {
      const template = parse(templateSchema, input, 'template')
      const row = {
        sandbox_environment: template.sandbox?.environment ?? null,
        network: template.sandbox?.network === undefined ? null : JSON.stringify(template.sandbox.network),
        min_isolation: template.sandbox?.min_isolation ?? null,
        retention_days: template.sandbox?.retention_days ?? null,
        encrypt_outputs: template.sandbox?.encrypt_outputs ?? null,
        updated_by: authorName(actor),
        updated_at: new Date(),
      }
      await translating('a template', async () => {
        try {
          await db.transaction().execute(async (tx) => {
            await nameActor(tx, { actor, source: 'api' })
            await tx
              .insertInto('templates')
              .values({ tenant_id: template.tenant_id, template_id: template.template_id, ...row })
              .onConflict((oc) => oc.columns(['tenant_id', 'template_id']).doUpdateSet(row))
              .execute()
          })
        } catch (error) {
          if (sqlState(error) === '23503')
            throw new CofferdamError('not_found', `There is no tenant ${template.tenant_id}.`)
          throw error
        }
      })
      return template
    },
    list: (tenantId) =>
      translating('the templates', async () => {
        const rows = await db
          .selectFrom('templates')
          .selectAll()
          .where('tenant_id', '=', tenantId)
          .orderBy('template_id')
          .limit(MAX_LIST)
          .execute()
        return rows.map(toTemplate)
      }),
  }
}

function toTemplate(row: Selectable<TemplatesTable>): Template {
  const { sandbox_environment: environment, network, min_isolation, retention_days, encrypt_outputs } = row
  const settings = { network, min_isolation, retention_days, encrypt_outputs }
  return templateSchema.parse({
    tenant_id: row.tenant_id,
    template_id: row.template_id,
    sandbox:
      environment === null
        ? null
        : {
            environment,
            ...Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null)),
          },
  })
}
