package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AdminRequestsTest {
    private final AdminRequests requests =
            new AdminRequests((topic, range) -> range.equals("0x00000000_0x40000000") == topic.endsWith("orders"));

    @ParameterizedTest
    @CsvSource({
        "PUT, persistent/public/default/orders/unload, unload, true, true",
        "DELETE, persistent/public/default/orders, unload, true, true",
        "DELETE, persistent/public/default/orders/partitions, unload, true, true",
        "DELETE, persistent/public/default/orders/truncate, clear, false, true",
        "POST, persistent/public/default/orders/subscription/billing/skip/150, skip, false, true",
        "POST, persistent/public/default/orders/subscription/billing/skip_all, clear, false, true",
        "POST, persistent/public/default/orders/subscription/other/skip_all, clear, false, false",
        "POST, persistent/public/default/orders/subscription/billing/resetcursor/1700000000000, seek, true, true",
        "POST, persistent/public/default/orders/subscription/billing/expireMessages/5, expire, false, true",
        "POST, persistent/public/default/orders/all_subscription/expireMessages/5, expire, false, true",
        "PUT, persistent/public/default/more%2Forders/unload, unload, true, false",
        "PUT, namespaces/public/default/unload, unload, true, true",
        "PUT, namespaces/public/other/unload, unload, true, false",
        "PUT, namespaces/public/default/0x00000000_0x40000000/unload, unload, true, true",
        "PUT, namespaces/public/default/0x40000000_0xffffffff/unload, unload, true, false",
        "POST, namespaces/public/default/clearBacklog/billing, clear, false, true",
        "POST, namespaces/public/default/clearBacklog/other, clear, false, false",
    })
    void aRequestResetsSubscriptions(String method, String path, String reason, boolean restarts, boolean billing) {
        AdminRequests.Asked asked = requests.reset(method, "/admin/v2/" + path);
        assertNotNull(asked);
        assertEquals(reason, asked.reason());
        assertEquals(restarts, asked.restarts());
        assertEquals(billing, asked.concerns().test(Group.of("persistent://public/default/orders", "billing")));
    }

    @ParameterizedTest
    @CsvSource({
        "GET, /admin/v2/persistent/public/default/orders/unload",
        "PUT, /admin/v2/persistent/public/default/orders/subscription/billing",
        "PUT, /admin/v2/namespaces/public/default",
        "POST, /lookup/v2/topic/persistent/public/default/orders",
        "PUT, /admin/v2/persistent/public/default/orders/partitions",
    })
    void othersDoNot(String method, String uri) {
        assertNull(requests.reset(method, uri));
    }
}
