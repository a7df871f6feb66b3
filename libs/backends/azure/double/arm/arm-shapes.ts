/** Resources of the management plane, and how its answers show them. */

/** A resource of a group. Tests add resources of another owner that are not pools. */
export interface ArmResource {
  id: string
  type: string
  tags: Record<string, string>
}

export interface ArmPool extends ArmResource {
  location: string
  properties: Record<string, unknown>
}

/** The form of an ID for comparisons: ARM's IDs are case-insensitive. */
export const fold = (id: string): string => id.toLowerCase()
/** The last part of an ID. */
export const nameOf = (id: string): string => id.split('/').at(-1) ?? ''
/** A resource group as answers show it. */
export const withState = (group: { id: string }) => ({
  ...group,
  name: nameOf(group.id),
  type: 'Microsoft.Resources/resourceGroups',
  properties: { provisioningState: 'Succeeded' },
})
/** A pool as answers show it. */
export const shown = (pool: ArmPool) => ({ ...structuredClone(pool), name: nameOf(pool.id) })
/** A role assignment as answers show it. */
export const shownRole = (id: string, scope: string, properties: object) => ({
  id,
  name: nameOf(id),
  type: 'Microsoft.Authorization/roleAssignments',
  properties: { ...properties, scope },
})
