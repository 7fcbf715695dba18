package dispatchaudit.recorder;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;

/** A method without parameters, or a field, of the broker that not every release has. It is looked for once, by its name. */
final class Member {
    private static final MethodType ANY = MethodType.methodType(Object.class, Object.class);

    private final Class<?> owner;
    private final MethodHandle handle;

    private Member(Class<?> owner, MethodHandle handle) {
        this.owner = owner;
        this.handle = handle;
    }

    /**
     * Looks for a member.
     *
     * @param owner class that has it; null: this broker has no such class
     * @param names of a method or a field; the first that there is counts
     */
    static Member of(Class<?> owner, String... names) {
        for (String name : names) {
            MethodHandle found = owner == null ? null : method(owner, name);
            found = found != null || owner == null ? found : field(owner, name);
            if (found != null) {
                return new Member(owner, found.asType(ANY));
            }
        }
        return new Member(owner, null);
    }

    private static MethodHandle method(Class<?> owner, String name) {
        try {
            return MethodHandles.publicLookup().unreflect(owner.getMethod(name));
        } catch (ReflectiveOperationException | LinkageError e) {
            return null;
        }
    }

    private static MethodHandle field(Class<?> owner, String name) {
        for (Class<?> type = owner; type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return MethodHandles.lookup().unreflectGetter(field);
            } catch (ReflectiveOperationException | LinkageError | RuntimeException e) {
                // A class above may have it.
            }
        }
        return null;
    }

    /** Whether this broker has it. */
    boolean exists() {
        return handle != null;
    }

    /** Its value; null where this broker does not have it, or the object is of another class. */
    Object of(Object target) {
        if (handle == null || !owner.isInstance(target)) {
            return null;
        }
        try {
            return handle.invokeExact(target);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
